/* What a fuzz target tells the driver: inputs to begin from. With clang's libFuzzer the
 * target is linked without the driver. */
#ifndef PIPETRAIN_FUZZ_H
#define PIPETRAIN_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct fuzz_seed { const void *data; size_t bytes; };

/* Ended by a row whose data is NULL. A target may leave it out. */
extern const struct fuzz_seed fuzz_seeds[];

/* Try one input; anything wrong ends the program. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* End the program where this does not hold. */
static inline void require(int holds)
{
    if (!holds)
        abort();
}

#endif
