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
    atomic_uint_fast64_t told;              /* messages wanted */
    pthread_mutex_t lock;                   /* of the list and the sink */
    bool has_lock;
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
uint64_t damage_count(const struct damage *damage);
/* The list, which belongs to the caller from now on; NULL for a struct of zeros. No thread adds. */
struct damage_list *damage_take_list(struct damage *damage);

#endif
