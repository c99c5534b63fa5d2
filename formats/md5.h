/* MD5 (RFC 1321), only to recognise well-known files by their published sums. */
#ifndef PIPETRAIN_MD5_H
#define PIPETRAIN_MD5_H

#include <stddef.h>
#include <stdint.h>

#define MD5_TEXT_BYTES 33   /* 32 lower-case hexadecimal digits and the end */

void md5_text(const uint8_t *data, size_t bytes, char text_out[MD5_TEXT_BYTES]);

#endif
