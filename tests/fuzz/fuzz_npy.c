/* Fuzz target of NumPy's formats: any bytes as a .npy header, and as an .npz archive. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/npy.h"
#include "formats/zip.h"
#include "tests/fuzz/fuzz.h"

#define UNPACKED_MAX ((size_t)1 << 20)

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("\223NUMPY\1\0\x3b\0{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n\0\0\0\0\0\0\0\0"),
    SEED("\223NUMPY\3\0\x3d\0\0\0{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1L), } \n\1\2"),
    /* a stored member called a */
    SEED("PK\3\4\24\0\0\0\0\0\0\0\0\0\103\276\267\350\1\0\0\0\1\0\0\0\1\0\0\0aa"
         "PK\1\2\24\0\24\0\0\0\0\0\0\0\0\0\103\276\267\350\1\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a"
         "PK\5\6\0\0\0\0\1\0\1\0\x2f\0\0\0\x20\0\0\0\0\0"),
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

static void unpack(const struct zip_member *member)
{
    const char *problem;

    if (member->unpacked_bytes > UNPACKED_MAX)
        return;
    uint8_t *const out = malloc(member->unpacked_bytes + 1);
    if (out != NULL && zip_unpack(member, out, &problem) == 0)
        parse(out, member->unpacked_bytes);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct zip_member member;
    const char *problem;
    struct zip zip;
    size_t place = 0;

    parse(data, bytes);
    if (zip_open(&zip, data, bytes, &problem) < 0)
        return 0;
    int rc;
    while ((rc = zip_next(&zip, &place, &member, &problem)) == 0)
        unpack(&member);
    if (rc == -EBADMSG && problem == NULL)
        abort();
    return 0;
}
