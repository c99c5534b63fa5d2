/* The IDX format of MNIST (doc/formats.md): the magic 00 00 08 and the number d of dimensions, d big-endian sizes,
 * uint8 data. */
#ifndef PIPETRAIN_IDX_H
#define PIPETRAIN_IDX_H

#include <stddef.h>
#include <stdint.h>

struct idx { uint32_t rank; uint32_t dims[4]; const uint8_t *data; size_t data_bytes; };

/* Parse a whole file in memory; data points into it. 0, or -EBADMSG with the reason: a wrong magic, type or rank, or
 * more or fewer bytes than the sizes require. */
int idx_parse(const uint8_t *file, size_t bytes, struct idx *idx_out, const char **problem_out);

#endif
