/* How shards may be compressed: in units one behind the other, each of which ends where a record does. */
#ifndef PIPETRAIN_PACKING_H
#define PIPETRAIN_PACKING_H

#include <stddef.h>
#include <stdint.h>

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_LZ4, PACKING_COUNT };

#define PACKING_UNIT_BYTES ((size_t)1 << 20)    /* of records, at least, but in the last unit of a shard */

/* "none", "gzip", "lz4". */
const char *packing_name(enum packing packing);
/* The most bytes of a unit of so many, which is not PACKING_NONE's; SIZE_MAX where it would be too large. */
size_t packing_bound(enum packing packing, size_t bytes);
/* Compress to one unit in `out`, which has room for the bound. The same bytes give the same. 0, -EFBIG or -ENOMEM. */
int packing_write(enum packing packing, const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);

#endif
