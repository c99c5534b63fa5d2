/* The header of a safetensors file. Called when weights are saved; the JSON itself is
 * written by json.c, so that strings are escaped in one place. */
#include "formats/safetensors.h"

#include <errno.h>
#include <string.h>

static uint64_t dtype_bytes(const char *dtype)
{
    static const struct { const char *name; uint64_t bytes; } dtypes[] = {
        { "F64", 8 }, { "I64", 8 }, { "U64", 8 }, { "F32", 4 }, { "I32", 4 }, { "U32", 4 },
        { "F16", 2 }, { "BF16", 2 }, { "I16", 2 }, { "U16", 2 }, { "U8", 1 }, { "I8", 1 }, { "BOOL", 1 },
    };

    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        if (strcmp(dtypes[i].name, dtype) == 0)
            return dtypes[i].bytes;
    }
    return 0;
}

static int name_is_plain(const char *name)
{
    for (const char *at = name; *at; at++) {
        if (*at <= ' ' || *at > '~' || *at == '"' || *at == '\\')
            return 0;
    }
    return *name != '\0';
}

/* The shape, the type and the size of an entry must tell the same. */
static int entry_is_sound(const struct safetensors_entry *entry)
{
    uint64_t bytes = dtype_bytes(entry->dtype);

    if (bytes == 0 || entry->rank > 8 || !name_is_plain(entry->name))
        return 0;
    for (uint32_t i = 0; i < entry->rank; i++) {
        if (__builtin_mul_overflow(bytes, entry->dims[i], &bytes))
            return 0;
    }
    return bytes == entry->bytes;
}

static int entries_are_sound(const struct safetensors_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!entry_is_sound(&entries[i]))
            return 0;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(entries[i].name, entries[j].name) == 0)
                return 0;
        }
    }
    return 1;
}

static void put_metadata(struct json *json, const struct safetensors_text *metadata, size_t count)
{
    if (count == 0)
        return;
    json_open_object(json, "__metadata__");
    for (size_t i = 0; i < count; i++)
        json_quoted(json, metadata[i].key, metadata[i].value);
    json_close_object(json);
}

static void put_entry(struct json *json, const struct safetensors_entry *entry, uint64_t begin)
{
    json_open_object(json, entry->name);
    json_quoted(json, "dtype", entry->dtype);
    json_open_array(json, "shape");
    for (uint32_t i = 0; i < entry->rank; i++)
        json_u64(json, NULL, entry->dims[i]);
    json_close_array(json);
    json_open_array(json, "data_offsets");
    json_u64(json, NULL, begin);
    json_u64(json, NULL, begin + entry->bytes);
    json_close_array(json);
    json_close_object(json);
}

void safetensors_length(size_t bytes, uint8_t length_out[SAFETENSORS_LENGTH_BYTES])
{
    for (unsigned i = 0; i < SAFETENSORS_LENGTH_BYTES; i++)
        length_out[i] = (uint8_t)((uint64_t)bytes >> (8 * i));
}

int safetensors_header(struct json *json, const struct safetensors_entry *entries, size_t entry_count,
                       const struct safetensors_text *metadata, size_t metadata_count, size_t alignment)
{
    if (!entries_are_sound(entries, entry_count))
        return -EINVAL;

    uint64_t begin = 0;
    json_reset(json);
    json_open_object(json, NULL);
    put_metadata(json, metadata, metadata_count);
    for (size_t i = 0; i < entry_count; i++) {
        put_entry(json, &entries[i], begin);
        begin += entries[i].bytes;
    }
    json_close_object(json);
    json_pad(json, SAFETENSORS_LENGTH_BYTES, alignment);
    return json_text(json) != NULL ? 0 : -ENOMEM;
}
