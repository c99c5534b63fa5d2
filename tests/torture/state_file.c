/* Check a checkpoint file, without the code by which the programs write and read it. */
#include "tests/torture/state_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "formats/safetensors.h"

#define LENGTH_BYTES 8u
#define HASH_DIGITS 16u
#define HASH_KEY "pipetrain.xxh3"

bool state_file_is_name(const char *name)
{
    return strncmp(name, "checkpoint-", strlen("checkpoint-")) == 0;
}

static bool is_hash(const char *said, const void *bytes, size_t count)
{
    char found[HASH_DIGITS + 1];
    snprintf(found, sizeof(found), "%016" PRIx64, (uint64_t)XXH3_64bits(bytes, count));
    return said != NULL && strncmp(said, found, HASH_DIGITS) == 0;
}

/* The hash was computed over the header with zeros in its own place, which are written there. */
static bool header_is_whole(char *header, size_t bytes)
{
    static const char key[] = "\"" HASH_KEY "\":\"";
    char said[HASH_DIGITS + 1] = "";
    char *const place = memmem(header, bytes, key, sizeof(key) - 1);
    if (place == NULL || (size_t)(header + bytes - place) < sizeof(key) + HASH_DIGITS)
        return false;
    memcpy(said, place + sizeof(key) - 1, HASH_DIGITS);
    memset(place + sizeof(key) - 1, '0', HASH_DIGITS);
    return is_hash(said, header, bytes);
}

static bool tensors_are_whole(const struct safetensors_index *index, const char *data)
{
    size_t i = 0;
    for (; i < index->count; i++) {
        char key[256];
        const struct safetensors_tensor *const tensor = &index->tensors[i];
        snprintf(key, sizeof(key), HASH_KEY ".%s", tensor->name);
        if (!is_hash(safetensors_index_text(index, key), data + tensor->offset, tensor->bytes))
            break;
    }
    return index->count > 0 && i == index->count;
}

bool state_file_is_whole(char *bytes, size_t count)
{
    struct safetensors_index index = { .count = 0 };
    char problem[128];
    if (count < LENGTH_BYTES)
        return false;
    const uint64_t header = safetensors_header_bytes((const uint8_t *)bytes);
    if (header > count - LENGTH_BYTES || !header_is_whole(bytes + LENGTH_BYTES, header))
        return false;
    const bool is_whole = safetensors_index_read(&index, bytes + LENGTH_BYTES, header, count - LENGTH_BYTES - header,
                                                 problem, sizeof(problem)) == 0 &&
                          tensors_are_whole(&index, bytes + LENGTH_BYTES + header);
    safetensors_index_release(&index);
    return is_whole;
}
