/* The manifest, read with jansson. Called while data sets are opened; pure functions, any thread. */
#include "formats/manifest.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More are in no shard, and sums of them can be counted. */
#define RECORDS_MAX ((json_int_t)1 << 40)

static int refuse(char *problem, size_t problem_size, const char *text)
{
    snprintf(problem, problem_size, "%s", text);
    return -EBADMSG;
}

static bool is_a(const json_t *value, json_type type)
{
    return value != NULL && json_typeof(value) == type;
}

static bool is_count(const json_t *value)
{
    return is_a(value, JSON_INTEGER) && json_integer_value(value) >= 0;
}

static int add_shard(struct manifest *manifest, const json_t *entry)
{
    const json_t *const file = json_object_get(entry, "file"), *const records = json_object_get(entry, "records");
    const json_t *const bytes = json_object_get(entry, "bytes");
    if (!is_a(file, JSON_STRING) || !is_count(records) || json_integer_value(records) > RECORDS_MAX)
        return -EBADMSG;
    struct manifest_shard *const shard = &manifest->shards[manifest->count];
    *shard = (struct manifest_shard){
        .file = strdup(json_string_value(file)),
        .records = (uint64_t)json_integer_value(records),
        .bytes = is_count(bytes) ? (uint64_t)json_integer_value(bytes) : MANIFEST_SIZE_UNSAID,
        .split = manifest->split_count,
    };
    if (shard->file == NULL)
        return -ENOMEM;
    manifest->count++;
    return 0;
}

/* Room for so many more, and one, since a list of none is no failure. */
static int reserve(struct manifest *manifest, size_t more)
{
    void *const grown = realloc(manifest->shards, (manifest->count + more + 1) * sizeof(*manifest->shards));
    if (grown == NULL)
        return -ENOMEM;
    manifest->shards = grown;
    return 0;
}

static int add_split(struct manifest *manifest, const json_t *split)
{
    const json_t *const entries = json_object_get(split, "shards");
    if (!is_a(entries, JSON_ARRAY))
        return -EBADMSG;
    int rc = reserve(manifest, json_array_size(entries));
    for (size_t i = 0; rc == 0 && i < json_array_size(entries); i++)
        rc = add_shard(manifest, json_array_get(entries, i));
    manifest->split_count++;
    return rc;
}

static int shard_compare(const void *a, const void *b)
{
    return strcmp(((const struct manifest_shard *)a)->file, ((const struct manifest_shard *)b)->file);
}

static int add_splits(struct manifest *manifest, json_t *splits, char *problem, size_t problem_size)
{
    int rc = reserve(manifest, 0);
    void *place = json_object_iter(splits);
    for (; rc == 0 && place != NULL; place = json_object_iter_next(splits, place))
        rc = add_split(manifest, json_object_iter_value(place));
    if (rc == -EBADMSG)
        refuse(problem, problem_size, "a split has no shards with file and records");
    if (rc == 0)
        qsort(manifest->shards, manifest->count, sizeof(*manifest->shards), shard_compare);
    return rc;
}

static json_t *load(const char *text, size_t bytes, int *rc_out, char *problem, size_t problem_size)
{
    json_error_t error;
    json_t *const root = json_loadb(text, bytes, 0, &error);
    *rc_out = 0;
    if (root == NULL && json_error_code(&error) == json_error_out_of_memory)
        *rc_out = -ENOMEM;
    else if (root == NULL) {
        snprintf(problem, problem_size, "line %d: %s", error.line, error.text);
        *rc_out = -EBADMSG;
    }
    return root;
}

int manifest_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                  size_t problem_size)
{
    struct manifest manifest = { 0 };
    int rc;
    json_t *const root = load(text, bytes, &rc, problem_out, problem_size);
    if (rc < 0)
        return rc;
    json_t *const splits = json_object_get(root, "splits");
    rc = is_a(splits, JSON_OBJECT) ? add_splits(&manifest, splits, problem_out, problem_size)
                                   : refuse(problem_out, problem_size, "has no splits");
    json_decref(root);
    if (rc < 0)
        manifest_release(&manifest);
    else
        *manifest_out = manifest;
    return rc;
}

const struct manifest_shard *manifest_find(const struct manifest *manifest, const char *file)
{
    const struct manifest_shard wanted = { .file = (char *)(uintptr_t)file };
    if (manifest->count == 0)
        return NULL;
    return bsearch(&wanted, manifest->shards, manifest->count, sizeof(*manifest->shards), shard_compare);
}

void manifest_release(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        free(manifest->shards[i].file);
    free(manifest->shards);
    *manifest = (struct manifest){ 0 };
}
