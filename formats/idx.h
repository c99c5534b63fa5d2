/* The IDX format of MNIST (doc/formats.md): big-endian magic 00 00 08 0d, d sizes, uint8 data. */
#ifndef PIPETRAIN_IDX_H
#define PIPETRAIN_IDX_H

#include <stddef.h>
#include <stdint.h>

struct idx { uint32_t rank; uint32_t dims[4]; const uint8_t *data; size_t data_bytes; };

/* Parse a whole file in memory; data points into it. 0, or -EBADMSG with a text of what is
 * wrong: magic, type, rank, or fewer or more bytes than the sizes say. */
int idx_parse(const uint8_t *file, size_t bytes, struct idx *idx_out, const char **problem_out);

#endif
