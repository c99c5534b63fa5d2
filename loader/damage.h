/* The damage a run has met: every damaged record counted once, the first ones told and
 * listed. */
#ifndef PIPETRAIN_DAMAGE_H
#define PIPETRAIN_DAMAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/damage_list.h"
#include "loader/dataset.h"
#include "loader/record_marks.h"

struct damage {
    const struct dataset *datasets[PASS_COUNT];
    struct record_marks known;
    atomic_uint_fast64_t count;             /* records lost */
    pthread_mutex_t lock;                   /* of what follows, the sink's calls included */
    bool has_lock;
    bool is_silent;                         /* messages have ended */
    uint64_t told;                          /* messages wanted */
    struct damage_sink sink;
    struct damage_list *list;
};

size_t damage_bytes(const struct dataset *const datasets[PASS_COUNT]);
/* Begins with what was lost when the shards were indexed, which goes into the sink too. Data sets may be NULL. 0 or
 * -ENOMEM. */
int damage_init(struct damage *damage, const struct dataset *const datasets[PASS_COUNT],
                const struct damage_sink *sink);
/* Accepts a struct of zeros. */
void damage_release(struct damage *damage);

/* Record `id` of a pass is damaged. True when that was not known. Any thread. */
bool damage_add(struct damage *damage, enum pass pass, uint64_t id, const struct record_problem *problem);
/* No more messages about damage, which would follow the one that the run ends with. Accepts a struct of zeros.
 * Any thread. */
void damage_silence(struct damage *damage);
/* The same where damage is what ends the run: the first of the records met so far, in the order of the data, for
 * its message. There is one. Any thread. */
void damage_end(struct damage *damage, char *text, size_t text_size);
/* Of the data sets, those that were lost included. */
uint64_t damage_record_count(const struct damage *damage);
uint64_t damage_count(const struct damage *damage);
/* The list, which belongs to the caller from now on; NULL for a struct of zeros. No thread adds. */
struct damage_list *damage_take_list(struct damage *damage);

#endif
