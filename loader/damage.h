/* The damage a run has met: every damaged record counted once, the first ones told and
 * listed. */
#ifndef PIPETRAIN_DAMAGE_H
#define PIPETRAIN_DAMAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "stage/schedule.h"

#define DAMAGE_LINES_MAX 256u
#define DAMAGE_LINE_BYTES 512u

struct damage_line { enum pass pass; uint64_t id; char text[DAMAGE_LINE_BYTES]; };

struct damage {
    const struct dataset *datasets[PASS_COUNT];
    _Atomic uint8_t *known[PASS_COUNT];     /* a bit per record */
    atomic_uint_fast64_t count;
    pthread_mutex_t lock;                   /* of the lines */
    struct damage_line *lines;              /* DAMAGE_LINES_MAX */
    size_t line_count;
};

size_t damage_bytes(const struct dataset *const datasets[PASS_COUNT]);
/* Begins with what was lost when the shards were indexed. Data sets may be NULL. 0 or -ENOMEM. */
int damage_init(struct damage *damage, const struct dataset *const datasets[PASS_COUNT]);
/* Accepts a struct of zeros. */
void damage_release(struct damage *damage);

/* Record `id` of a pass is damaged, as `what` says. True when that was not known. Any thread. */
bool damage_add(struct damage *damage, enum pass pass, uint64_t id, const char *what);
uint64_t damage_count(const struct damage *damage);
/* Copy the first `max` lines, by pass and record; how many there were. No thread adds. */
size_t damage_list(struct damage *damage, char (*lines)[DAMAGE_LINE_BYTES], size_t max);

#endif
