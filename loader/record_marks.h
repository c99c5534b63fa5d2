/* A bit for every record of a run's data sets. */
#ifndef PIPETRAIN_RECORD_MARKS_H
#define PIPETRAIN_RECORD_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"

struct record_marks {
    _Atomic uint8_t *bits[PASS_COUNT];
};

size_t record_marks_bytes(const struct dataset *const datasets[PASS_COUNT]);
/* None is marked. Data sets may be NULL. 0, or -ENOMEM; record_marks_release after either. */
int record_marks_init(struct record_marks *marks, const struct dataset *const datasets[PASS_COUNT]);
/* Accepts a struct of zeros. */
void record_marks_release(struct record_marks *marks);
/* Mark record `id` of a pass. True when it was not. Any thread. */
bool record_marks_set(struct record_marks *marks, enum pass pass, uint64_t id);

#endif
