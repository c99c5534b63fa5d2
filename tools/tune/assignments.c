/* A candidate -> assignments. */
#include "tools/tune/assignments.h"

#include <inttypes.h>
#include <stdio.h>

void assignments_make(struct assignments *assignments, const struct candidate *candidate, bool sets_threads)
{
    const struct feed_setting *const setting = &candidate->setting;
    const struct { const char *key; uint32_t value; } values[ASSIGNMENTS_KEYS] = {
        { "input.prefetch_depth", setting->ring },
        { "input.staging_depth", setting->slots },
        { "input.read_threads", setting->readers },
        { "input.decode_threads", setting->decoders },
        { "devices.threads_per_tower", setting->threads },
    };
    const size_t value_count = sets_threads ? ASSIGNMENTS_KEYS : ASSIGNMENTS_KEYS - 1;
    assignments->count = 0;
    if (candidate->is_cached)
        assignments->own[assignments->count++] = "input.source=cached";
    for (size_t i = 0; i < value_count; i++) {
        snprintf(assignments->texts[i], ASSIGNMENT_BYTES, "%s=%" PRIu32, values[i].key, values[i].value);
        assignments->own[assignments->count++] = assignments->texts[i];
    }
}
