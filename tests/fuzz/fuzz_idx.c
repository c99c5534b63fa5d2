/* Fuzz target of the IDX parser and of inflating: any bytes as a file of MNIST. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/gunzip.h"
#include "formats/idx.h"
#include "tests/fuzz/fuzz.h"

#define LIMIT_BYTES ((size_t)1 << 20)

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    /* images */
    SEED("\000\000\010\003\000\000\000\002\000\000\000\001\000\000\000\003\141\142\143\144\145\146"),
    /* labels */
    SEED("\000\000\010\001\000\000\000\002\007\011"),
    /* images in gzip */
    SEED("\037\213\010\000\000\000\000\000\002\003\143\140\340\140\146\140\140\140\002\142\106\040\146\116"
         "\114\112\116\111\115\003\000\173\015\010\064\026\000\000\000"),
    /* images in zlib */
    SEED("\170\234\143\140\340\140\146\140\140\140\002\142\106\040\146\116\114\112\116\111\115\003\000\011"
         "\105\002\147"),
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
    uint8_t *out;
    size_t out_bytes;

    parse(data, bytes);
    if (gunzip(data, bytes, LIMIT_BYTES, &out, &out_bytes) == 0) {
        if (out_bytes > LIMIT_BYTES)
            abort();
        parse(out, out_bytes);
        free(out);
    }
    return 0;
}
