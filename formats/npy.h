/* The header of NumPy's .npy format (doc/formats.md), versions 1 to 3. Supported are little-endian booleans,
 * integers and floating-point numbers in C order, of up to NPY_RANK_MAX dimensions. */
#ifndef PIPETRAIN_NPY_H
#define PIPETRAIN_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPY_RANK_MAX 8u
#define NPY_HEADER_BYTES_MAX ((size_t)64 << 10)     /* longer headers are refused */

enum npy_kind { NPY_BOOL, NPY_INT, NPY_UINT, NPY_FLOAT };

struct npy {
    enum npy_kind kind;
    uint32_t item_bytes;        /* bytes of a number: 1, 2, 4 or 8 */
    uint32_t rank;
    uint64_t dims[NPY_RANK_MAX];
    size_t header_bytes;        /* where the data begin */
    uint64_t data_bytes;        /* size of all numbers */
};

/* Read the header from the first `bytes` bytes of a file; these have to be the whole file or at least
 * NPY_HEADER_BYTES_MAX. 0, or -EBADMSG with the reason. The caller checks that the file has data_bytes after the
 * header. */
int npy_parse(const uint8_t *file, size_t bytes, struct npy *npy_out, const char **problem_out);
/* The number at `at`, which needs no alignment. Integers over 2^53 are rounded. */
double npy_number(const struct npy *npy, const uint8_t *at);
/* Read the integer at `at`. False for a floating-point array, and if the integer does not fit into value_out. */
bool npy_integer(const struct npy *npy, const uint8_t *at, int64_t *value_out);
/* Write the header of a float32 array of that many rows, in C order: version 1.0, always of the same length, so that it
 * can be written again when the number of rows is known. */
#define NPY_ROWS_HEADER_BYTES 128u
void npy_rows_header(uint64_t rows, uint64_t columns, char header_out[NPY_ROWS_HEADER_BYTES]);
/* The name of the dtype: "float32", "uint8", ... */
const char *npy_type_name(const struct npy *npy);

#endif
