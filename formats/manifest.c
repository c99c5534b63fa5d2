/* Reading the descriptions of data sets with jansson: our manifest, dataset.json, and the files of TensorFlow Datasets.
 * Called while data sets are opened; pure functions, any thread. */
#include "formats/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger record counts are refused, so sums over all shards cannot overflow. */
#define RECORDS_MAX ((uint64_t)1 << 40)

/* The feature in which pipetrain-convert stores the name of the class, beside the label. */
#define TEXT_KEY "image/class/text"

static int manifest_refuse(char *problem, size_t problem_size, const char *text)
{
    snprintf(problem, problem_size, "%s", text);
    return -EBADMSG;
}

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* Make room for one more element. The capacity doubles when the list is full. */
static int reserve(void **list, size_t count, size_t size)
{
    const bool is_full = (count & (count - 1)) == 0;    /* the capacity is a power of two */
    void *const grown = is_full ? reallocarray(*list, count > 0 ? 2 * count : 1, size) : *list;
    if (grown == NULL)
        return -ENOMEM;
    *list = grown;
    return 0;
}

static int begin_split(struct manifest *manifest, const char *name)
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

static int append_shard(struct manifest *manifest, const char *listed_in, const char *file, uint64_t records,
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

static int set_keys(struct manifest *manifest, const char *image_key, const char *label_key)
{
    free(manifest->image_key);
    free(manifest->label_key);
    manifest->image_key = strdup(image_key);
    manifest->label_key = strdup(label_key);
    return manifest->image_key != NULL && manifest->label_key != NULL ? 0 : -ENOMEM;
}

/* A hash is 16 hexadecimal digits; anything else is ignored. */
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
    if (!json_is_string(file) || !is_count(records) || (uint64_t)json_integer_value(records) > RECORDS_MAX)
        return -EBADMSG;
    const int rc = append_shard(manifest, MANIFEST_FILE, json_string_value(file),
                                (uint64_t)json_integer_value(records),
                                is_count(bytes) ? (uint64_t)json_integer_value(bytes) : MANIFEST_SIZE_UNSAID);
    if (rc == 0)
        read_hash(&manifest->shards[manifest->count - 1], json_string_value(json_object_get(entry, "xxh3")));
    return rc;
}

static int add_split(struct manifest *manifest, const char *name, const json_t *split)
{
    const json_t *const entries = json_object_get(split, "shards");
    if (!json_is_array(entries))
        return -EBADMSG;
    int rc = begin_split(manifest, name);
    for (size_t i = 0; rc == 0 && i < json_array_size(entries); i++)
        rc = add_shard(manifest, json_array_get(entries, i));
    return rc;
}

static int shard_compare(const void *a, const void *b)
{
    return strcmp(((const struct manifest_shard *)a)->file, ((const struct manifest_shard *)b)->file);
}

static void sort_shards(struct manifest *manifest)
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
        manifest_refuse(problem, problem_size, "a split has no shards with file and records");
    if (rc == 0)
        sort_shards(manifest);
    return rc;
}

static int read_keys(struct manifest *manifest, const json_t *root)
{
    const char *const image = json_string_value(json_object_get(json_object_get(root, "image"), "key"));
    const char *const label = json_string_value(json_object_get(root, "label_key"));
    return image != NULL && label != NULL ? set_keys(manifest, image, label) : 0;
}

/* class_names is only displayed, so anything but a list of strings is ignored. */
static int add_class_names(struct manifest *manifest, const json_t *names)
{
    const size_t count = json_is_array(names) ? json_array_size(names) : 0;
    for (size_t i = 0; i < count; i++)
        if (!json_is_string(json_array_get(names, i)))
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

/* The number of classes from the file, or else the number of class names. */
static uint64_t read_classes(const struct manifest *manifest, const json_t *classes)
{
    return is_count(classes) ? (uint64_t)json_integer_value(classes) : manifest->class_count;
}

static int load_json(json_t **root_out, const char *text, size_t bytes, char *problem_out, size_t problem_size)
{
    json_error_t error;
    errno = 0;      /* jansson reports a failed allocation only by errno, and not always */
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
    int rc = load_json(&root, text, bytes, problem_out, problem_size);
    if (rc < 0)
        return rc;
    json_t *const splits = json_object_get(root, "splits");
    rc = json_is_object(splits) ? add_splits(&manifest, splits, problem_out, problem_size)
                                   : manifest_refuse(problem_out, problem_size, "has no splits");
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

bool manifest_describes(const struct manifest *manifest, const char *label_key)
{
    return label_key == NULL || manifest->label_key == NULL || strcmp(label_key, manifest->label_key) == 0 ||
           strcmp(label_key, TEXT_KEY) == 0;
}

uint64_t manifest_classes(const struct manifest *manifest, const char *label_key, const char **said_in_out)
{
    const char *const key = label_key != NULL ? label_key : manifest->label_key;
    *said_in_out = MANIFEST_FILE;
    if (manifest->classes > 0 && manifest_describes(manifest, label_key))
        return manifest->classes;
    *said_in_out = FEATURES_FILE;
    for (size_t i = 0; i < manifest->label_count && key != NULL; i++)
        if (strcmp(manifest->labels[i].key, key) == 0)
            return manifest->labels[i].classes;
    return 0;
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
    for (size_t i = 0; i < manifest->label_count; i++)
        free(manifest->labels[i].key);
    free(manifest->labels);
    *manifest = (struct manifest){ 0 };
}

/* ---- TensorFlow Datasets ---- */

#define SHARDS_MAX ((size_t)1 << 20)
#define NAME_BYTES 256u                         /* size of a file name, with its terminating zero */

struct info {
    struct manifest manifest;
    const char *name, *format;  /* name of the data set; file format, "tfrecord" */
    char *problem;
    size_t problem_size;
};

static int tfds_refuse(struct info *info, const char *text)
{
    return manifest_refuse(info->problem, info->problem_size, text);
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *const text = json_string_value(json_object_get(object, key));
    return text != NULL && *text != '\0' ? text : otherwise;
}

/* Read a number. 64-bit integers are strings in protobuf's JSON. */
static bool read_count(const json_t *value, uint64_t *count_out)
{
    const char *const text = json_string_value(value);
    char *end = NULL;
    uint64_t count = 0;
    if (is_count(value))
        count = (uint64_t)json_integer_value(value);
    else if (text != NULL && *text >= '0' && *text <= '9')
        count = strtoull(text, &end, 10);
    else
        return false;
    *count_out = count;
    return count <= RECORDS_MAX && (end == NULL || *end == '\0');
}

/* A file name being built. */
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

/* The values of the variables in a file name template. */
struct shard_words {
    const char *dataset, *split, *format;
    char index[24], count[24], index_of_count[52];      /* room for the digits of any size_t */
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

/* The value of a variable; NULL if the variable is unknown. */
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

/* Expand a file name template. False if it has an unknown variable, or if the name is too long or in another folder. */
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

static int tfds_add_shard(struct info *info, const json_t *split, const char *split_name, size_t index, size_t count,
                     uint64_t records)
{
    static const char usual[] = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";
    struct shard_words words;
    struct name name;
    words_init(&words, info, split_name, index, count);
    if (!expand(text_of(split, "filepathTemplate", usual), &words, &name))
        return tfds_refuse(info, "a split has a filepathTemplate that names no file of its folder");
    return append_shard(&info->manifest, DATASET_INFO_FILE, name.text, records, MANIFEST_SIZE_UNSAID);
}

static int add_lengths(struct info *info, const json_t *split, const char *name, const json_t *lengths)
{
    const size_t count = json_array_size(lengths);
    uint64_t shards = count, records;
    const json_t *const said = json_object_get(split, "numShards");
    int rc = 0;
    if (count > SHARDS_MAX)
        return tfds_refuse(info, "a split has too many shards");
    if (said != NULL && (!read_count(said, &shards) || (shards != count && shards != 0)))
        return tfds_refuse(info, "a split's numShards is not the number of its shardLengths");
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = read_count(json_array_get(lengths, i), &records)
                 ? tfds_add_shard(info, split, name, i, count, records)
                 : tfds_refuse(info, "a split's shardLengths are no numbers of records");
    return rc;
}

/* Old data sets have the number of records of a split but no shard lengths: such a split is read if it is one shard. */
static int add_whole(struct info *info, const json_t *split, const char *name)
{
    uint64_t shards = 1, records;
    const json_t *const said = json_object_get(split, "numShards");
    if (said != NULL && (!read_count(said, &shards) || shards != 1))
        return 0;
    if (!read_count(json_object_get(json_object_get(split, "statistics"), "numExamples"), &records))
        return 0;
    return tfds_add_shard(info, split, name, 0, 1, records);
}

static int tfds_add_split(struct info *info, const json_t *split)
{
    const char *const name = text_of(split, "name", NULL);
    const json_t *const lengths = json_object_get(split, "shardLengths");
    if (name == NULL)
        return tfds_refuse(info, "a split has no name");
    if (lengths != NULL && !json_is_array(lengths))
        return tfds_refuse(info, "a split's shardLengths are no list");
    const int rc = begin_split(&info->manifest, name);
    if (rc < 0)
        return rc;
    return json_array_size(lengths) > 0 ? add_lengths(info, split, name, lengths) : add_whole(info, split, name);
}

/* Read the supervised keys: {"input": I, "output": O}, or {"tuple": {"items": [{"featureKey": I}, {"featureKey":
 * O}]}}. */
static int tfds_read_keys(struct manifest *manifest, const json_t *keys)
{
    const json_t *const items = json_object_get(json_object_get(keys, "tuple"), "items");
    const char *const image = text_of(json_array_get(items, 0), "featureKey", text_of(keys, "input", NULL));
    const char *const label = text_of(json_array_get(items, 1), "featureKey", text_of(keys, "output", NULL));
    return image != NULL && label != NULL ? set_keys(manifest, image, label) : 0;
}

static int read_info(struct info *info, const json_t *root)
{
    const json_t *const splits = json_object_get(root, "splits");
    info->name = text_of(root, "name", NULL);
    info->format = text_of(root, "fileFormat", "tfrecord");
    if (info->name == NULL || !json_is_array(splits))
        return tfds_refuse(info, "has no name and splits");
    if (strcmp(info->format, "tfrecord") != 0) {
        snprintf(info->problem, info->problem_size, "its shards are %.40s files, only tfrecord is read", info->format);
        return -EBADMSG;
    }
    int rc = tfds_read_keys(&info->manifest, json_object_get(root, "supervisedKeys"));
    for (size_t i = 0; i < json_array_size(splits) && rc == 0; i++)
        rc = tfds_add_split(info, json_array_get(splits, i));
    return rc;
}

int dataset_info_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                      size_t problem_size)
{
    struct info info = { .problem = problem_out, .problem_size = problem_size };
    json_t *root;
    int rc = load_json(&root, text, bytes, problem_out, problem_size);
    if (rc < 0)
        return rc;
    rc = read_info(&info, root);
    json_decref(root);
    if (rc < 0) {
        manifest_release(&info.manifest);
        return rc;
    }
    sort_shards(&info.manifest);
    *manifest_out = info.manifest;
    return 0;
}

/* How a kind of feature is recognised: by a member in the new form, {"classLabel": {"numClasses": "10"}}, or by the
 * type in the content of the old form, {"type": "...ClassLabel", "content": {"num_classes": 10}}. */
struct feature_kind {
    const char *member, *content;
};
static const struct feature_kind image_kind = { "image", "encoding_format" };
static const struct feature_kind label_kind = { "classLabel", "num_classes" };

static bool is_kind(const json_t *feature, const struct feature_kind *kind)
{
    return json_object_get(feature, kind->member) != NULL ||
           json_object_get(json_object_get(feature, "content"), kind->content) != NULL;
}

/* The name of the first feature of a kind. */
static const char *find_feature(json_t *features, const struct feature_kind *kind)
{
    for (void *place = json_object_iter(features); place != NULL; place = json_object_iter_next(features, place))
        if (is_kind(json_object_iter_value(place), kind))
            return json_object_iter_key(place);
    return NULL;
}

static int add_label(struct manifest *manifest, const char *key, const json_t *feature)
{
    uint64_t classes = 0;
    void *labels = manifest->labels;
    const int rc = reserve(&labels, manifest->label_count, sizeof(*manifest->labels));
    manifest->labels = labels;
    char *const copy = rc == 0 ? strdup(key) : NULL;
    if (copy == NULL)
        return -ENOMEM;
    if (!read_count(json_object_get(json_object_get(feature, "classLabel"), "numClasses"), &classes) &&
        !read_count(json_object_get(json_object_get(feature, "content"), "num_classes"), &classes))
        classes = 0;
    manifest->labels[manifest->label_count++] = (struct manifest_label){ copy, classes };
    return 0;
}

static int add_labels(struct manifest *manifest, json_t *features)
{
    int rc = 0;
    for (void *place = json_object_iter(features); rc == 0 && place != NULL;
         place = json_object_iter_next(features, place))
        if (is_kind(json_object_iter_value(place), &label_kind))
            rc = add_label(manifest, json_object_iter_key(place), json_object_iter_value(place));
    return rc;
}

int dataset_features_read(struct manifest *manifest, const char *text, size_t bytes, char *problem_out,
                          size_t problem_size)
{
    json_t *root;
    int rc = load_json(&root, text, bytes, problem_out, problem_size);
    if (rc < 0)
        return rc;
    json_t *const nested = json_object_get(json_object_get(root, "featuresDict"), "features");
    json_t *const features = nested != NULL ? nested : json_object_get(root, "content");
    const char *const image = find_feature(features, &image_kind), *const label = find_feature(features, &label_kind);
    if (manifest->image_key == NULL && image != NULL && label != NULL)
        rc = set_keys(manifest, image, label);
    if (rc == 0)
        rc = add_labels(manifest, features);
    json_decref(root);
    return rc;
}
