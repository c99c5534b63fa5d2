/* Whole gzip or zlib streams in memory, several members joined. */
#ifndef PIPETRAIN_GUNZIP_H
#define PIPETRAIN_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool gunzip_is_gzip(const uint8_t *data, size_t bytes);
/* Inflate to a malloc'ed block of at most limit_bytes. 0, -EBADMSG (damaged or cut),
 * -EFBIG (over the limit), -ENOMEM. */
int gunzip(const uint8_t *data, size_t bytes, size_t limit_bytes, uint8_t **out, size_t *bytes_out);

#endif
