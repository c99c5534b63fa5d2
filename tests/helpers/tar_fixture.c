/* Make tar archives. Called by tests. */
#include "tests/helpers/tar_fixture.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void set_checksum(uint8_t *header)
{
    unsigned sum = 0;

    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 8, "%06o", sum);
}

void tar_fixture_add(struct tar_fixture *tar, char kind, const char *name, const void *data, size_t bytes)
{
    uint8_t *header = tar->bytes + tar->byte_count;

    assert(strlen(name) <= 100 && tar->byte_count + 1024 + bytes <= sizeof(tar->bytes));
    tar->header = tar->byte_count;
    memset(header, 0, 512);
    memcpy(header, name, strlen(name));
    snprintf((char *)header + 100, 8, "%07o", 0644u);
    snprintf((char *)header + 124, 12, "%011zo", bytes);
    header[156] = (uint8_t)kind;
    memcpy(header + 257, "ustar\0" "00", 8);
    set_checksum(header);
    if (bytes > 0)
        memcpy(header + 512, data, bytes);
    memset(header + 512 + bytes, 0, -bytes % 512);
    tar->byte_count += 512 + bytes + -bytes % 512;
}

void tar_fixture_set(struct tar_fixture *tar, size_t offset, const void *value, size_t bytes)
{
    memcpy(tar->bytes + tar->header + offset, value, bytes);
    set_checksum(tar->bytes + tar->header);
}

void tar_fixture_pax(char *out, size_t out_size, const char *key, const char *value)
{
    const size_t rest = strlen(key) + strlen(value) + 3, begin = strlen(out);
    size_t length = rest + 1;

    while (length != rest + (size_t)snprintf(NULL, 0, "%zu", length))
        length++;
    snprintf(out + begin, out_size - begin, "%zu %s=%s\n", length, key, value);
}

void tar_fixture_end(struct tar_fixture *tar)
{
    memset(tar->bytes + tar->byte_count, 0, 1024);
    tar->byte_count += 1024;
}
