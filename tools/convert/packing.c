/* Kinds of compression. Pure; called by the writing threads. */
#include "tools/convert/packing.h"

#include "formats/compress.h"

static const struct packing_row {
    const char *name;
    size_t (*bound)(size_t bytes);
    int (*write)(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);
} rows[PACKING_COUNT] = {
    [PACKING_NONE] = { .name = "none" },
    [PACKING_GZIP] = { "gzip", gzip_write_bound, gzip_write },
    [PACKING_LZ4] = { "lz4", lz4_frame_bound, lz4_frame_write },
};

const char *packing_name(enum packing packing)
{
    return rows[packing].name;
}

size_t packing_bound(enum packing packing, size_t bytes)
{
    return rows[packing].bound(bytes);
}

int packing_write(enum packing packing, const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes)
{
    return rows[packing].write(data, bytes, out, out_bytes);
}
