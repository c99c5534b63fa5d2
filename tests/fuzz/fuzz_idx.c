/* Fuzz target of the IDX parser: any bytes as a file of MNIST. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/idx.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    /* images */
    SEED("\000\000\010\003\000\000\000\002\000\000\000\001\000\000\000\003\141\142\143\144\145\146"),
    /* labels */
    SEED("\000\000\010\001\000\000\000\002\007\011"),
    { NULL, 0 },
};

static void parse(const uint8_t *data, size_t bytes)
{
    const char *problem;
    struct idx idx;

    if (idx_parse(data, bytes, &idx, &problem) < 0) {
        if (problem == NULL)
            abort();
        return;
    }
    if (idx.rank < 1 || idx.rank > 4 || idx.data + idx.data_bytes != data + bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    parse(data, bytes);
    return 0;
}
