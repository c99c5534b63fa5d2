/* Bytes from hexadecimal text, in a block of exactly their size, so that a sanitizer detects reads beyond it. */
#ifndef PIPETRAIN_HEX_BLOCK_H
#define PIPETRAIN_HEX_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct hex_block {
    uint8_t *data;              /* to be freed */
    size_t bytes;
};

/* Spaces are ignored. */
struct hex_block hex_block(const char *hex);

#endif
