/* Zip archives made in memory, as numpy.savez and numpy.savez_compressed make them. */
#ifndef PIPETRAIN_ZIP_MAKER_H
#define PIPETRAIN_ZIP_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zip_maker {
    uint8_t *bytes, *directory;         /* owned; the archive is in `bytes` after zip_maker_end */
    size_t byte_count, directory_bytes;
    uint32_t member_count;
};

/* Add a member to an archive, which begins as zeros. Aborts without memory. */
void zip_maker_add(struct zip_maker *maker, const char *name, const void *data, size_t bytes, bool deflates);
/* Append the directory. */
void zip_maker_end(struct zip_maker *maker);
void zip_maker_release(struct zip_maker *maker);

#endif
