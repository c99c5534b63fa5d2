/* The IDX files of MNIST. Called by the converter with the file in memory; nothing is copied. */
#include "formats/idx.h"

#include <errno.h>

#include "formats/html.h"

#define IDX_UINT8 0x08

static uint32_t get_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static const char *magic_problem(const uint8_t *file, size_t bytes)
{
    if (bytes < 4)
        return "shorter than its magic number";
    if (html_begins(file, bytes))
        return "is HTML, not an IDX file: download it again";
    if (file[0] != 0 || file[1] != 0)
        return "not an IDX file: the magic number is wrong";
    if (file[2] != IDX_UINT8)
        return "values are not unsigned bytes (type 08): convert NumPy arrays of them";
    if (file[3] < 1 || file[3] > 4)
        return "number of dimensions is not 1 to 4";
    if (bytes < 4 + 4 * (size_t)file[3])
        return "cut short inside the sizes";
    return NULL;
}

/* Compute the product of the sizes. Returns NULL, or an error text if it overflows. */
static const char *data_size(const struct idx *idx, size_t *bytes_out)
{
    size_t bytes = 1;

    for (uint32_t i = 0; i < idx->rank; i++) {
        if (__builtin_mul_overflow(bytes, (size_t)idx->dims[i], &bytes))
            return "sizes are absurd";
    }
    *bytes_out = bytes;
    return NULL;
}

int idx_parse(const uint8_t *file, size_t bytes, struct idx *idx_out, const char **problem_out)
{
    *problem_out = magic_problem(file, bytes);
    if (*problem_out != NULL)
        return -EBADMSG;

    struct idx idx = { .rank = file[3] };
    for (uint32_t i = 0; i < idx.rank; i++)
        idx.dims[i] = get_be32(file + 4 + 4 * i);
    *problem_out = data_size(&idx, &idx.data_bytes);
    if (*problem_out != NULL)
        return -EBADMSG;

    const size_t header_bytes = 4 + 4 * (size_t)idx.rank;
    if (bytes - header_bytes != idx.data_bytes) {
        *problem_out = bytes - header_bytes < idx.data_bytes ? "fewer bytes than its sizes say"
                                                             : "more bytes than its sizes say";
        return -EBADMSG;
    }
    idx.data = file + header_bytes;
    *idx_out = idx;
    return 0;
}
