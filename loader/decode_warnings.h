/* Images that their decoder passed flaws of over: every record counted once, the first one told. */
#ifndef PIPETRAIN_DECODE_WARNINGS_H
#define PIPETRAIN_DECODE_WARNINGS_H

#include "loader/record.h"
#include "loader/record_marks.h"

struct decode_warnings {
    const struct dataset *datasets[PASS_COUNT];
    struct record_marks known;
    atomic_uint_fast64_t count;
};

/* Data sets may be NULL. 0, or -ENOMEM; decode_warnings_release after either. */
int decode_warnings_init(struct decode_warnings *warnings, const struct dataset *const datasets[PASS_COUNT]);
/* Accepts a struct of zeros. */
void decode_warnings_release(struct decode_warnings *warnings);
/* Record `id` of a pass was decoded with this warning (record_decode). Any thread. */
void decode_warnings_add(struct decode_warnings *warnings, enum pass pass, uint64_t id,
                         const struct record_problem *warning);
uint64_t decode_warnings_count(const struct decode_warnings *warnings);

#endif
