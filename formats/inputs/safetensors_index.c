/* The header of a safetensors file, read with jansson. Every number of it is checked before it is believed. */
#include "formats/inputs/safetensors_index.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

uint64_t safetensors_header_bytes(const uint8_t length[8])
{
    uint64_t bytes = 0;
    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | length[i];
    return bytes;
}

static bool is_a(const json_t *value, json_type type)
{
    return value != NULL && json_typeof(value) == type;
}

static bool read_count(const json_t *value, uint64_t *count_out)
{
    const json_int_t count = is_a(value, JSON_INTEGER) ? json_integer_value(value) : -1;
    *count_out = (uint64_t)count;
    return count >= 0;
}

static bool read_shape(struct safetensors_tensor *tensor, const json_t *shape)
{
    if (!is_a(shape, JSON_ARRAY) || json_array_size(shape) > SAFETENSORS_RANK_MAX)
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
    if (!is_a(offsets, JSON_ARRAY) || json_array_size(offsets) != 2 ||
        !read_count(json_array_get(offsets, 0), &tensor->offset) || !read_count(json_array_get(offsets, 1), &end) ||
        end < tensor->offset)
        return false;
    tensor->bytes = end - tensor->offset;
    return true;
}

/* Types that nobody here reads may have any size. */
static bool size_agrees(const struct safetensors_tensor *tensor)
{
    uint64_t bytes = sizeof(float);
    if (strcmp(tensor->dtype, "F32") != 0)
        return true;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(bytes, tensor->dims[i], &bytes))
            return false;
    return bytes == tensor->bytes;
}

static bool read_tensor(struct safetensors_tensor *tensor, const char *name, const json_t *entry)
{
    *tensor = (struct safetensors_tensor){ .name = name, .dtype = json_string_value(json_object_get(entry, "dtype")) };
    return tensor->dtype != NULL && read_shape(tensor, json_object_get(entry, "shape")) &&
           read_place(tensor, json_object_get(entry, "data_offsets")) && size_agrees(tensor);
}

static int read_tensors(struct safetensors_index *index, json_t *root, uint64_t data_bytes, char *problem_out,
                        size_t problem_size)
{
    for (void *at = json_object_iter(root); at != NULL; at = json_object_iter_next(root, at)) {
        const char *const name = json_object_iter_key(at);
        if (strcmp(name, "__metadata__") == 0)
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

int safetensors_index_read(struct safetensors_index *index_out, const char *header, size_t bytes, uint64_t data_bytes,
                           char *problem_out, size_t problem_size)
{
    json_error_t error;
    json_t *const root = json_loadb(header, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!is_a(root, JSON_OBJECT)) {
        json_decref(root);
        snprintf(problem_out, problem_size, "its header is no JSON object");
        return -EBADMSG;
    }
    struct safetensors_index index = { .root = root };
    index.tensors = calloc(json_object_size(root) + 1, sizeof(*index.tensors));
    const int rc = index.tensors == NULL ? -ENOMEM
                                         : read_tensors(&index, root, data_bytes, problem_out, problem_size);
    if (rc == 0)
        *index_out = index;
    else
        safetensors_index_release(&index);
    return rc;
}

void safetensors_index_release(struct safetensors_index *index)
{
    free(index->tensors);
    json_decref(index->root);
    *index = (struct safetensors_index){ .count = 0 };
}
