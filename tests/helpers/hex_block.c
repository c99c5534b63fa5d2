/* Bytes written as hexadecimal text. */
#include "tests/helpers/hex_block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hex_block hex_block(const char *hex)
{
    struct hex_block block = { malloc(strlen(hex) / 2 + 1), 0 };
    unsigned byte;
    int used;

    while (block.data != NULL && sscanf(hex, " %2x%n", &byte, &used) == 1) {
        block.data[block.bytes++] = (uint8_t)byte;
        hex += used;
    }
    if (block.bytes > 0)
        block.data = realloc(block.data, block.bytes);
    if (block.data == NULL)
        abort();
    return block;
}
