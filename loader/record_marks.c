/* Which records were met. Marked by decoders, rarely. */
#include "loader/record_marks.h"

#include <errno.h>
#include <stdlib.h>

static size_t bits_bytes(const struct dataset *dataset)
{
    return dataset != NULL ? dataset->record_count / 8 + 1 : 0;
}

size_t record_marks_bytes(const struct dataset *const datasets[PASS_COUNT])
{
    size_t bytes = 0;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        bytes += bits_bytes(datasets[pass]);
    return bytes;
}

int record_marks_init(struct record_marks *marks, const struct dataset *const datasets[PASS_COUNT])
{
    *marks = (struct record_marks){ { NULL } };
    int rc = 0;
    for (int pass = 0; pass < PASS_COUNT && rc == 0; pass++) {
        marks->bits[pass] = calloc(bits_bytes(datasets[pass]) + 1, 1);
        rc = marks->bits[pass] != NULL ? 0 : -ENOMEM;
    }
    return rc;
}

void record_marks_release(struct record_marks *marks)
{
    for (int pass = 0; pass < PASS_COUNT; pass++)
        free(marks->bits[pass]);
    *marks = (struct record_marks){ { NULL } };
}

bool record_marks_set(struct record_marks *marks, enum pass pass, uint64_t id)
{
    const uint8_t bit = (uint8_t)(1u << (id % 8));
    return (atomic_fetch_or(&marks->bits[pass][id / 8], bit) & bit) == 0;
}
