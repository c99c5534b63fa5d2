/* Looking for numbers that are not finite, at the speed of the memory. Called by the towers'
 * threads at reports, and by main when weights are saved. */
#include "compute/finite.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PIECE 4096u             /* floats looked at before it is asked whether one was bad */
#define MAGNITUDE 0x7fffffffu   /* all but the sign: in the order of the numbers, infinities and no numbers last */
#define BOUND ((127 + FINITE_BITS) << 23)

static bool is_finite(const float *number)
{
    uint32_t bits;
    memcpy(&bits, number, sizeof(bits));
    return (int32_t)(bits & MAGNITUDE) < BOUND;
}

/* Without a branch, so that it is vectorised. */
static bool are_finite(const float *floats, size_t count)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= !is_finite(&floats[i]);
    return bad == 0;
}

size_t finite_count(const float *floats, size_t count)
{
    size_t begin = 0;
    while (begin < count) {
        const size_t piece = count - begin < PIECE ? count - begin : PIECE;
        if (!are_finite(floats + begin, piece))
            break;
        begin += piece;
    }
    while (begin < count && is_finite(&floats[begin]))
        begin++;
    return begin;
}
