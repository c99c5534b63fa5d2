/* The header of a safetensors file: written with formats/json.h when weights are saved, and read with jansson. Every
 * number in a header is checked before it is used. */
#include "formats/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METADATA "__metadata__"
#define COUNT_END (INT64_C(1) << 48)
#define PAIRS_MAX 1024u         /* names that are compared in pairs */

/* Bits per number; 0 if the format has no such type. */
static uint32_t bits_of(const char *dtype)
{
    static const struct { const char *name; uint32_t bits; } types[] = {
        { "BOOL", 8 },        { "U8", 8 },          { "I8", 8 },          { "I16", 16 },    { "U16", 16 },
        { "F16", 16 },        { "BF16", 16 },       { "I32", 32 },        { "U32", 32 },    { "F32", 32 },
        { "F64", 64 },        { "I64", 64 },        { "U64", 64 },        { "C64", 64 },    { "F8_E4M3", 8 },
        { "F8_E5M2", 8 },     { "F8_E8M0", 8 },     { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 },
        { "F6_E2M3", 6 },     { "F6_E3M2", 6 },     { "F4", 4 },
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].bits;
    return 0;
}

/* ---- writing ---- */

static bool name_is_plain(const char *name)
{
    for (const char *at = name; *at; at++) {
        if (*at <= ' ' || *at > '~' || *at == '"' || *at == '\\')
            return false;
    }
    return *name != '\0';
}

/* Do shape, type and size of an entry agree? */
static bool entry_is_sound(const struct safetensors_entry *entry)
{
    uint64_t bytes = bits_of(entry->dtype) / 8;

    if (bytes == 0 || entry->rank > SAFETENSORS_RANK_MAX || !name_is_plain(entry->name))
        return false;
    for (uint32_t i = 0; i < entry->rank; i++) {
        if (__builtin_mul_overflow(bytes, entry->dims[i], &bytes))
            return false;
    }
    return bytes == entry->bytes;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Are all names different? Compared in pairs if they are few, else sorted. 0, -EINVAL or -ENOMEM. */
static int check_names(const struct safetensors_entry *entries, size_t count)
{
    int rc = 0;
    if (count <= PAIRS_MAX) {
        for (size_t i = 0; i < count && rc == 0; i++)
            for (size_t j = 0; j < i && rc == 0; j++)
                rc = strcmp(entries[i].name, entries[j].name) == 0 ? -EINVAL : 0;
        return rc;
    }
    const char **const names = malloc(count * sizeof(*names));
    if (names == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        names[i] = entries[i].name;
    qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 1; i < count && rc == 0; i++)
        rc = strcmp(names[i - 1], names[i]) == 0 ? -EINVAL : 0;
    free(names);
    return rc;
}

static int check_entries(const struct safetensors_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!entry_is_sound(&entries[i]))
            return -EINVAL;
    return check_names(entries, count);
}

static void put_metadata(struct json *json, const struct safetensors_text *metadata, size_t count)
{
    if (count == 0)
        return;
    json_open_object(json, METADATA);
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

int safetensors_header(struct json *json, const struct safetensors_entry *entries, size_t entry_count,
                       const struct safetensors_text *metadata, size_t metadata_count, size_t alignment)
{
    const int rc = check_entries(entries, entry_count);
    if (rc != 0)
        return rc;

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

void safetensors_length(size_t bytes, uint8_t length_out[SAFETENSORS_LENGTH_BYTES])
{
    for (unsigned i = 0; i < SAFETENSORS_LENGTH_BYTES; i++)
        length_out[i] = (uint8_t)((uint64_t)bytes >> (8 * i));
}

/* ---- reading ---- */

uint64_t safetensors_header_bytes(const uint8_t length[SAFETENSORS_LENGTH_BYTES])
{
    uint64_t bytes = 0;
    for (unsigned i = SAFETENSORS_LENGTH_BYTES; i > 0; i--)
        bytes = bytes << 8 | length[i - 1];
    return bytes;
}

static bool read_count(const json_t *value, uint64_t *count_out)
{
    const json_int_t count = json_is_integer(value) ? json_integer_value(value) : -1;
    *count_out = (uint64_t)count;
    return count >= 0 && count < COUNT_END;
}

static bool read_shape(struct safetensors_tensor *tensor, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_RANK_MAX)
        return false;
    tensor->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (!read_count(json_array_get(shape, i), &tensor->dims[i]))
            return false;
    return true;
}

static bool read_place(struct safetensors_tensor *tensor, const json_t *offsets)
{
    uint64_t end;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_count(json_array_get(offsets, 0), &tensor->offset) || !read_count(json_array_get(offsets, 1), &end) ||
        end < tensor->offset)
        return false;
    tensor->bytes = end - tensor->offset;
    return true;
}

static bool size_agrees(const struct safetensors_tensor *tensor)
{
    uint64_t bits = bits_of(tensor->dtype);
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(bits, tensor->dims[i], &bits))
            return false;
    return bits_of(tensor->dtype) > 0 && bits % 8 == 0 && bits / 8 == tensor->bytes;
}

static bool read_tensor(struct safetensors_tensor *tensor, const char *name, const json_t *entry)
{
    *tensor = (struct safetensors_tensor){ .name = name, .dtype = json_string_value(json_object_get(entry, "dtype")) };
    return json_object_size(entry) == 3 && tensor->dtype != NULL &&
           read_shape(tensor, json_object_get(entry, "shape")) &&
           read_place(tensor, json_object_get(entry, "data_offsets")) && size_agrees(tensor);
}

static int read_tensors(struct safetensors_index *index, json_t *root, uint64_t data_bytes, char *problem_out,
                        size_t problem_size)
{
    for (void *at = json_object_iter(root); at != NULL; at = json_object_iter_next(root, at)) {
        const char *const name = json_object_iter_key(at);
        if (strcmp(name, METADATA) == 0)
            continue;
        struct safetensors_tensor *const tensor = &index->tensors[index->count++];
        const bool is_right = read_tensor(tensor, name, json_object_iter_value(at));
        if (is_right && tensor->offset + tensor->bytes <= data_bytes)
            continue;
        snprintf(problem_out, problem_size, is_right ? "ends before its tensor '%.80s' does: it may have been cut"
                                                     : "its header says of tensor '%.80s' what cannot be", name);
        return -EBADMSG;
    }
    return 0;
}

static int check_metadata(const json_t *root, char *problem_out, size_t problem_size)
{
    json_t *const texts = json_object_get(root, METADATA);
    bool are_texts = texts == NULL || json_is_object(texts);
    for (void *at = json_object_iter(texts); at != NULL; at = json_object_iter_next(texts, at))
        are_texts = are_texts && json_is_string(json_object_iter_value(at));
    if (are_texts)
        return 0;
    snprintf(problem_out, problem_size, "its metadata are no texts");
    return -EBADMSG;
}

static int by_place(const void *left, const void *right)
{
    const struct safetensors_tensor *const a = left, *const b = right;
    const int begins = (a->offset > b->offset) - (a->offset < b->offset);
    return begins != 0 ? begins : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Check that the tensors follow one another without gaps and fill the file. */
static int check_cover(struct safetensors_index *index, uint64_t data_bytes, char *problem_out, size_t problem_size)
{
    uint64_t end = 0;
    bool is_chain = true;
    qsort(index->tensors, index->count, sizeof(*index->tensors), by_place);
    for (size_t i = 0; i < index->count; i++) {
        is_chain = is_chain && index->tensors[i].offset == end;
        end = index->tensors[i].offset + index->tensors[i].bytes;
    }
    if (is_chain && end == data_bytes)
        return 0;
    snprintf(problem_out, problem_size, "%s",
             is_chain ? "has bytes behind its tensors" : "its tensors overlap, or leave gaps");
    return -EBADMSG;
}

static int read_header(struct safetensors_index *index, uint64_t data_bytes, char *problem_out, size_t problem_size)
{
    index->tensors = calloc(json_object_size(index->root) + 1, sizeof(*index->tensors));
    int rc = index->tensors == NULL ? -ENOMEM : check_metadata(index->root, problem_out, problem_size);
    if (rc == 0)
        rc = read_tensors(index, index->root, data_bytes, problem_out, problem_size);
    return rc == 0 ? check_cover(index, data_bytes, problem_out, problem_size) : rc;
}

/* Does the header have a number with a minus sign? jansson reads -0 as 0, so the sign has to be found in the text. */
static bool has_signed_number(const char *header, size_t bytes)
{
    bool is_text = false, has_sign = false;
    for (size_t i = 0; i < bytes && !has_sign; i++) {
        if (is_text && header[i] == '\\')
            i++;
        else if (header[i] == '"')
            is_text = !is_text;
        else
            has_sign = !is_text && header[i] == '-';
    }
    return has_sign;
}

int safetensors_index_read(struct safetensors_index *index_out, const char *header, size_t bytes, uint64_t data_bytes,
                           char *problem_out, size_t problem_size)
{
    json_error_t error;
    const bool may_be = bytes > 0 && header[0] == '{';
    errno = 0;      /* jansson reports a failed allocation only by errno, and not always */
    json_t *const root = may_be ? json_loadb(header, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (root == NULL && errno == ENOMEM)
        return -ENOMEM;
    if (!json_is_object(root)) {
        json_decref(root);
        snprintf(problem_out, problem_size, "its header is no JSON object");
        return -EBADMSG;
    }
    struct safetensors_index index = { .root = root };
    int rc = read_header(&index, data_bytes, problem_out, problem_size);
    if (rc == 0 && has_signed_number(header, bytes)) {
        snprintf(problem_out, problem_size, "its header has a number with a sign");
        rc = -EBADMSG;
    }
    if (rc == 0)
        *index_out = index;
    else
        safetensors_index_release(&index);
    return rc;
}

const char *safetensors_index_text(const struct safetensors_index *index, const char *key)
{
    return json_string_value(json_object_get(json_object_get(index->root, METADATA), key));
}

void safetensors_index_release(struct safetensors_index *index)
{
    free(index->tensors);
    json_decref(index->root);
    *index = (struct safetensors_index){ .count = 0 };
}
