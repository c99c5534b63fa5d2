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

/* Room for one more; lists grow by halves. */
static int reserve(void **list, size_t count, size_t size)
{
    const bool is_full = (count & (count - 1)) == 0;    /* 0 or a power of two: as long as it was made */
    void *const grown = is_full ? reallocarray(*list, count > 0 ? 2 * count : 1, size) : *list;
    if (grown == NULL)
        return -ENOMEM;
    *list = grown;
    return 0;
}

int manifest_begin_split(struct manifest *manifest, const char *name)
{
    void *names = manifest->split_names;
    const int rc = reserve(&names, manifest->split_count, sizeof(*manifest->split_names));
    manifest->split_names = names;
    if (rc < 0)
        return rc;
    char *const copy = strdup(name);
    if (copy == NULL)
        return -ENOMEM;
    manifest->split_names[manifest->split_count++] = copy;
    return 0;
}

int manifest_add(struct manifest *manifest, const char *listed_in, const char *file, uint64_t records,
                 uint64_t bytes)
{
    void *shards = manifest->shards;
    const int rc = reserve(&shards, manifest->count, sizeof(*manifest->shards));
    manifest->shards = shards;
    if (rc < 0)
        return rc;
    struct manifest_shard *const shard = &manifest->shards[manifest->count];
    *shard = (struct manifest_shard){ .listed_in = listed_in, .file = strdup(file), .records = records,
                                     .bytes = bytes, .split = manifest->split_count - 1 };
    if (shard->file == NULL)
        return -ENOMEM;
    manifest->count++;
    return 0;
}

int manifest_set_keys(struct manifest *manifest, const char *image_key, const char *label_key)
{
    free(manifest->image_key);
    free(manifest->label_key);
    manifest->image_key = strdup(image_key);
    manifest->label_key = strdup(label_key);
    return manifest->image_key != NULL && manifest->label_key != NULL ? 0 : -ENOMEM;
}

/* 16 hexadecimal digits; anything else is as good as none. */
static void read_hash(struct manifest_shard *shard, const char *text)
{
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return;
    shard->hash = strtoull(text, NULL, 16);
    shard->has_hash = true;
}

static int add_shard(struct manifest *manifest, const json_t *entry)
{
    const json_t *const file = json_object_get(entry, "file"), *const records = json_object_get(entry, "records");
    const json_t *const bytes = json_object_get(entry, "bytes");
    if (!is_a(file, JSON_STRING) || !is_count(records) || json_integer_value(records) > RECORDS_MAX)
        return -EBADMSG;
    const int rc = manifest_add(manifest, MANIFEST_FILE, json_string_value(file),
                                (uint64_t)json_integer_value(records),
                                is_count(bytes) ? (uint64_t)json_integer_value(bytes) : MANIFEST_SIZE_UNSAID);
    if (rc == 0)
        read_hash(&manifest->shards[manifest->count - 1], json_string_value(json_object_get(entry, "xxh3")));
    return rc;
}

static int add_split(struct manifest *manifest, const char *name, const json_t *split)
{
    const json_t *const entries = json_object_get(split, "shards");
    if (!is_a(entries, JSON_ARRAY))
        return -EBADMSG;
    int rc = manifest_begin_split(manifest, name);
    for (size_t i = 0; rc == 0 && i < json_array_size(entries); i++)
        rc = add_shard(manifest, json_array_get(entries, i));
    return rc;
}

static int shard_compare(const void *a, const void *b)
{
    return strcmp(((const struct manifest_shard *)a)->file, ((const struct manifest_shard *)b)->file);
}

void manifest_sort(struct manifest *manifest)
{
    if (manifest->count > 0)
        qsort(manifest->shards, manifest->count, sizeof(*manifest->shards), shard_compare);
}

static int add_splits(struct manifest *manifest, json_t *splits, char *problem, size_t problem_size)
{
    int rc = 0;
    for (void *place = json_object_iter(splits); rc == 0 && place != NULL; place = json_object_iter_next(splits, place))
        rc = add_split(manifest, json_object_iter_key(place), json_object_iter_value(place));
    if (rc == -EBADMSG)
        refuse(problem, problem_size, "a split has no shards with file and records");
    if (rc == 0)
        manifest_sort(manifest);
    return rc;
}

static int read_keys(struct manifest *manifest, const json_t *root)
{
    const char *const image = json_string_value(json_object_get(json_object_get(root, "image"), "key"));
    const char *const label = json_string_value(json_object_get(root, "label_key"));
    return image != NULL && label != NULL ? manifest_set_keys(manifest, image, label) : 0;
}

/* class_names, where it is a list of names only; it is for people, so that anything else is as good as none. */
static int add_class_names(struct manifest *manifest, const json_t *names)
{
    const size_t count = is_a(names, JSON_ARRAY) ? json_array_size(names) : 0;
    for (size_t i = 0; i < count; i++)
        if (!is_a(json_array_get(names, i), JSON_STRING))
            return 0;
    manifest->class_names = count > 0 ? calloc(count, sizeof(*manifest->class_names)) : NULL;
    if (count > 0 && manifest->class_names == NULL)
        return -ENOMEM;
    while (manifest->class_count < count) {
        char *const name = strdup(json_string_value(json_array_get(names, manifest->class_count)));
        if (name == NULL)
            return -ENOMEM;
        manifest->class_names[manifest->class_count++] = name;
    }
    return 0;
}

/* How many classes there are, as it says, or by their names. */
static uint64_t read_classes(const struct manifest *manifest, const json_t *classes)
{
    return is_count(classes) ? (uint64_t)json_integer_value(classes) : manifest->class_count;
}

int manifest_load(json_t **root_out, const char *text, size_t bytes, char *problem_out, size_t problem_size)
{
    json_error_t error;
    errno = 0;      /* jansson tells of too little memory only now and then */
    json_t *const root = json_loadb(text, bytes, 0, &error);
    if (root != NULL) {
        *root_out = root;
        return 0;
    }
    if (errno == ENOMEM)
        return -ENOMEM;
    snprintf(problem_out, problem_size, "line %d: %s", error.line, error.text);
    return -EBADMSG;
}

int manifest_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                  size_t problem_size)
{
    struct manifest manifest = { 0 };
    json_t *root;
    int rc = manifest_load(&root, text, bytes, problem_out, problem_size);
    if (rc < 0)
        return rc;
    json_t *const splits = json_object_get(root, "splits");
    rc = is_a(splits, JSON_OBJECT) ? add_splits(&manifest, splits, problem_out, problem_size)
                                   : refuse(problem_out, problem_size, "has no splits");
    if (rc == 0)
        rc = read_keys(&manifest, root);
    if (rc == 0)
        rc = add_class_names(&manifest, json_object_get(root, "class_names"));
    manifest.classes = read_classes(&manifest, json_object_get(root, "classes"));
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
    for (size_t i = 0; i < manifest->split_count; i++)
        free(manifest->split_names[i]);
    free(manifest->shards);
    free(manifest->split_names);
    free(manifest->image_key);
    free(manifest->label_key);
    for (size_t i = 0; i < manifest->class_count; i++)
        free(manifest->class_names[i]);
    free(manifest->class_names);
    *manifest = (struct manifest){ 0 };
}
