/* Make tar archives member by member, also invalid ones. */
#ifndef PIPETRAIN_TAR_FIXTURE_H
#define PIPETRAIN_TAR_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

struct tar_fixture {
    uint8_t bytes[65536];
    size_t byte_count;
    size_t header;              /* where the last header begins */
};

/* Add a member: a POSIX header with a valid checksum, and the data in whole blocks. */
void tar_fixture_add(struct tar_fixture *tar, char kind, const char *name, const void *data, size_t bytes);
/* Change a field of the last header, and its checksum. */
void tar_fixture_set(struct tar_fixture *tar, size_t offset, const void *value, size_t bytes);
/* Append a line of a pax header, which begins with its own length, to the string `out`. */
void tar_fixture_pax(char *out, size_t out_size, const char *key, const char *value);
/* Add the two blocks of zeros at the end. */
void tar_fixture_end(struct tar_fixture *tar);

#endif
