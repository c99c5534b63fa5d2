/* Zip archives made in memory, as numpy.savez and numpy.savez_compressed make them. */
#ifndef PIPETRAIN_ZIP_MAKER_H
#define PIPETRAIN_ZIP_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zip_maker {
    uint8_t *bytes, *directory;         /* what zip_maker_end gives is in bytes; owned */
    size_t byte_count, directory_bytes;
    uint32_t member_count;
};

/* Add a member to an archive that was all zeros at first. Fails the test without memory. */
void zip_maker_add(struct zip_maker *maker, const char *name, const void *data, size_t bytes, bool deflates);
/* Put the directory behind the members. */
void zip_maker_end(struct zip_maker *maker);
void zip_maker_release(struct zip_maker *maker);

#endif
