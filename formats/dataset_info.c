/* What TensorFlow Datasets writes beside shards, read with jansson. Called while data sets are opened; pure
 * functions, any thread. */
#include "formats/dataset_info.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX ((uint64_t)1 << 40)         /* of a shard, so that sums can be counted */
#define SHARDS_MAX ((size_t)1 << 20)
#define NAME_BYTES 256u                         /* of a file, with its zero */

struct info {
    struct manifest manifest;
    const char *name, *format;  /* of the set; "tfrecord" */
    char *problem;
    size_t problem_size;
};

static int refuse(struct info *info, const char *text)
{
    snprintf(info->problem, info->problem_size, "%s", text);
    return -EBADMSG;
}

static bool is_a(const json_t *value, json_type type)
{
    return value != NULL && json_typeof(value) == type;
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *const text = json_string_value(json_object_get(object, key));
    return text != NULL && *text != '\0' ? text : otherwise;
}

/* A number, or one in a string, as 64-bit integers are in protobuf's JSON. */
static bool read_count(const json_t *value, uint64_t *count_out)
{
    const char *const text = json_string_value(value);
    char *end = NULL;
    uint64_t count = 0;
    if (is_a(value, JSON_INTEGER) && json_integer_value(value) >= 0)
        count = (uint64_t)json_integer_value(value);
    else if (text != NULL && *text >= '0' && *text <= '9')
        count = strtoull(text, &end, 10);
    else
        return false;
    *count_out = count;
    return count <= RECORDS_MAX && (end == NULL || *end == '\0');
}

/* A file's name being put together. */
struct name {
    char text[NAME_BYTES];
    size_t bytes;
};

static bool name_add(struct name *name, const char *text, size_t bytes)
{
    if (bytes >= sizeof(name->text) - name->bytes)
        return false;
    memcpy(name->text + name->bytes, text, bytes);
    name->bytes += bytes;
    name->text[name->bytes] = '\0';
    return true;
}

/* What stands for the variables of a template. */
struct shard_words {
    const char *dataset, *split, *format;
    char index[24], count[24], index_of_count[52];      /* digits of any size_t */
};

static void words_init(struct shard_words *words, const struct info *info, const char *split, size_t index,
                       size_t count)
{
    words->dataset = info->name;
    words->split = split;
    words->format = info->format;
    snprintf(words->index, sizeof(words->index), "%05zu", index);
    snprintf(words->count, sizeof(words->count), "%05zu", count);
    snprintf(words->index_of_count, sizeof(words->index_of_count), "%s-of-%s", words->index, words->count);
}

/* The word for a variable, NULL when there is none. */
static const char *find_word(const struct shard_words *words, const char *variable, size_t bytes)
{
    const struct { const char *name, *word; } known[] = {
        { "DATASET", words->dataset },  { "SPLIT", words->split },     { "FILEFORMAT", words->format },
        { "SHARD_INDEX", words->index }, { "NUM_SHARDS", words->count }, { "SHARD_X_OF_Y", words->index_of_count },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strlen(known[i].name) == bytes && memcmp(known[i].name, variable, bytes) == 0)
            return known[i].word;
    return NULL;
}

/* False where the template has another variable, or the name is too long or not one of the same folder. */
static bool expand(const char *template, const struct shard_words *words, struct name *name)
{
    name->bytes = 0;
    name->text[0] = '\0';
    while (*template != '\0') {
        const char *const end = *template == '{' ? strchr(template, '}') : NULL;
        const char *const word = end != NULL ? find_word(words, template + 1, (size_t)(end - template - 1)) : NULL;
        if (*template == '{' && word == NULL)
            return false;
        if (!name_add(name, word != NULL ? word : template, word != NULL ? strlen(word) : 1))
            return false;
        template = word != NULL ? end + 1 : template + 1;
    }
    return name->bytes > 0 && name->text[0] != '.' && strchr(name->text, '/') == NULL;
}

static int add_shard(struct info *info, const json_t *split, const char *split_name, size_t index, size_t count,
                     uint64_t records)
{
    static const char usual[] = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";
    struct shard_words words;
    struct name name;
    words_init(&words, info, split_name, index, count);
    if (!expand(text_of(split, "filepathTemplate", usual), &words, &name))
        return refuse(info, "a split has a filepathTemplate that names no file of its folder");
    return manifest_add(&info->manifest, DATASET_INFO_FILE, name.text, records, MANIFEST_SIZE_UNSAID);
}

static int add_lengths(struct info *info, const json_t *split, const char *name, const json_t *lengths)
{
    const size_t count = json_array_size(lengths);
    uint64_t shards = count, records;
    const json_t *const said = json_object_get(split, "numShards");
    int rc = 0;
    if (count > SHARDS_MAX)
        return refuse(info, "a split has too many shards");
    if (said != NULL && (!read_count(said, &shards) || (shards != count && shards != 0)))
        return refuse(info, "a split's numShards is not the number of its shardLengths");
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = read_count(json_array_get(lengths, i), &records)
                 ? add_shard(info, split, name, i, count, records)
                 : refuse(info, "a split's shardLengths are no numbers of records");
    return rc;
}

/* An old set may say how many records a split has and nothing of its shards, which are one then. */
static int add_whole(struct info *info, const json_t *split, const char *name)
{
    uint64_t shards = 1, records;
    const json_t *const said = json_object_get(split, "numShards");
    if (said != NULL && (!read_count(said, &shards) || shards != 1))
        return 0;
    if (!read_count(json_object_get(json_object_get(split, "statistics"), "numExamples"), &records))
        return 0;
    return add_shard(info, split, name, 0, 1, records);
}

static int add_split(struct info *info, const json_t *split)
{
    const char *const name = text_of(split, "name", NULL);
    const json_t *const lengths = json_object_get(split, "shardLengths");
    if (name == NULL)
        return refuse(info, "a split has no name");
    if (lengths != NULL && !is_a(lengths, JSON_ARRAY))
        return refuse(info, "a split's shardLengths are no list");
    const int rc = manifest_begin_split(&info->manifest, name);
    if (rc < 0)
        return rc;
    return json_array_size(lengths) > 0 ? add_lengths(info, split, name, lengths) : add_whole(info, split, name);
}

/* {"input": I, "output": O}, or {"tuple": {"items": [{"featureKey": I}, {"featureKey": O}]}}. */
static int read_keys(struct manifest *manifest, const json_t *keys)
{
    const json_t *const items = json_object_get(json_object_get(keys, "tuple"), "items");
    const char *const image = text_of(json_array_get(items, 0), "featureKey", text_of(keys, "input", NULL));
    const char *const label = text_of(json_array_get(items, 1), "featureKey", text_of(keys, "output", NULL));
    return image != NULL && label != NULL ? manifest_set_keys(manifest, image, label) : 0;
}

static int read_info(struct info *info, const json_t *root)
{
    const json_t *const splits = json_object_get(root, "splits");
    info->name = text_of(root, "name", NULL);
    info->format = text_of(root, "fileFormat", "tfrecord");
    if (info->name == NULL || !is_a(splits, JSON_ARRAY))
        return refuse(info, "has no name and splits");
    if (strcmp(info->format, "tfrecord") != 0) {
        snprintf(info->problem, info->problem_size, "its shards are %.40s files, only tfrecord is read", info->format);
        return -EBADMSG;
    }
    int rc = read_keys(&info->manifest, json_object_get(root, "supervisedKeys"));
    for (size_t i = 0; i < json_array_size(splits) && rc == 0; i++)
        rc = add_split(info, json_array_get(splits, i));
    return rc;
}

int dataset_info_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                      size_t problem_size)
{
    struct info info = { .problem = problem_out, .problem_size = problem_size };
    json_t *root;
    int rc = manifest_load(&root, text, bytes, problem_out, problem_size);
    if (rc < 0)
        return rc;
    rc = read_info(&info, root);
    json_decref(root);
    if (rc < 0) {
        manifest_release(&info.manifest);
        return rc;
    }
    manifest_sort(&info.manifest);
    *manifest_out = info.manifest;
    return 0;
}

/* The name of the first feature that is described by this member. */
static const char *find_feature(json_t *features, const char *member)
{
    for (void *place = json_object_iter(features); place != NULL; place = json_object_iter_next(features, place))
        if (json_object_get(json_object_iter_value(place), member) != NULL)
            return json_object_iter_key(place);
    return NULL;
}

int dataset_features_read(struct manifest *manifest, const char *text, size_t bytes, char *problem_out,
                          size_t problem_size)
{
    json_t *root;
    int rc = manifest_load(&root, text, bytes, problem_out, problem_size);
    if (rc < 0)
        return rc;
    json_t *const features = json_object_get(json_object_get(root, "featuresDict"), "features");
    const char *const image = find_feature(features, "image"), *const label = find_feature(features, "classLabel");
    if (manifest->image_key == NULL && image != NULL && label != NULL)
        rc = manifest_set_keys(manifest, image, label);
    json_decref(root);
    return rc;
}
