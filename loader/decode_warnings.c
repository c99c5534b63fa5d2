/* What decoders pass over, as those of other programs do. Decoders add to it, rarely. */
#include "loader/decode_warnings.h"

#include "stage/log.h"

#define LINE_BYTES 1024u

int decode_warnings_init(struct decode_warnings *warnings, const struct dataset *const datasets[PASS_COUNT])
{
    *warnings = (struct decode_warnings){ .count = 0 };
    for (int pass = 0; pass < PASS_COUNT; pass++)
        warnings->datasets[pass] = datasets[pass];
    return record_marks_init(&warnings->known, datasets);
}

void decode_warnings_release(struct decode_warnings *warnings)
{
    record_marks_release(&warnings->known);
}

void decode_warnings_add(struct decode_warnings *warnings, enum pass pass, uint64_t id,
                         const struct record_problem *warning)
{
    if (!record_marks_set(&warnings->known, pass, id) || atomic_fetch_add(&warnings->count, 1) > 0)
        return;
    char text[LINE_BYTES];
    record_describe(warnings->datasets[pass], id, warning, text, sizeof(text));
    log_message(LOG_RUN, "%s: it is used as far as it goes; further images like it are counted", text);
}

uint64_t decode_warnings_count(const struct decode_warnings *warnings)
{
    return atomic_load(&warnings->count);
}
