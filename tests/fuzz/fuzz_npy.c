/* Fuzz target of NumPy's format: any bytes as a .npy header. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/npy.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("\223NUMPY\1\0\x3b\0{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n\0\0\0\0\0\0\0\0"),
    SEED("\223NUMPY\3\0\x3d\0\0\0{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1L), } \n\1\2"),
    { NULL, 0 },
};

static void parse(const uint8_t *data, size_t bytes)
{
    const char *problem;
    struct npy npy;

    if (npy_parse(data, bytes, &npy, &problem) < 0) {
        if (problem == NULL)
            abort();
        return;
    }
    if (npy.header_bytes > bytes || npy.rank > NPY_RANK_MAX || npy_type_name(&npy) == NULL)
        abort();
    uint64_t count = npy.data_bytes / npy.item_bytes;
    for (uint32_t i = 0; i < npy.rank; i++)
        count = npy.dims[i] > 0 ? count / npy.dims[i] : count;
    if (npy.data_bytes > 0 && count != 1)
        abort();
    if (npy.data_bytes > 0 && npy.data_bytes <= bytes - npy.header_bytes)
        (void)npy_number(&npy, data + npy.header_bytes + npy.data_bytes - npy.item_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    parse(data, bytes);
    return 0;
}
