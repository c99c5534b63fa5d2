/* The converter of WebDataset: archives of samples. A sample is the files with one key, which is the path up to the
 * first dot of the file's name; one of them is its image, and one its label: a text (.cls), or a member of a JSON
 * object (.json). Each archive is read once from front to back; images of uncompressed archives are read again when
 * their records are written, others are kept in memory. Pickled and other files are never read. Called by the main
 * thread; images are read by the writing threads. */
#include "tools/convert/webdataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/json_label.h"
#include "formats/split_name.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "tools/convert/archive_store.h"
#include "tools/convert/archive_walk.h"
#include "tools/convert/convert.h"
#include "tools/convert/csv_table.h"
#include "tools/convert/image_set.h"
#include "tools/convert/shard_names.h"

#define SPLITS_MAX 3u
#define LABEL_BYTES_MAX JSON_LABEL_BYTES
#define JSON_BYTES_MAX ((uint64_t)1 << 20)
#define IDS_LEAST 10u           /* with fewer samples, each may have a class of its own */
#define EXTENSIONS_MAX 8u
#define PEEKED_MEMBERS 64u

/* Extensions of label files that WebDataset and its users write. */
static const char *const label_endings[] = { "cls", "label", "class", "target", "cls.txt", "label.txt", "class.txt" };
/* Extensions of files that only Python can read, or that hold arrays. */
static const char *const foreign_endings[] = { "pyd", "pickle", "pkl", "pth", "pt", "npy", "npz", "ten", "tensor",
                                               "msgpack", "msg" };

enum part_kind { PART_IMAGE, PART_LABEL, PART_JSON, PART_REFUSED, PART_FOREIGN, PART_OTHER };

/* A file of a sample. */
struct part {
    uint64_t path;              /* offset of its path in shard_parts.names */
    uint32_t key_bytes;         /* length of the key at the beginning of the path */
    uint32_t order;             /* number of the file in the archive */
    uint32_t run;               /* number of the run of neighbouring files with the same key */
    enum part_kind kind;
    struct image_file image;    /* of PART_IMAGE */
    char *label;                /* of PART_LABEL and PART_JSON; NULL: it has none */
    char *problem;              /* of PART_LABEL and PART_JSON: why it holds no label; NULL: there is no problem */
};

/* The files of the current archive. */
struct shard_parts {
    struct part *items;
    size_t count, room;
    char *names;
    size_t name_bytes, name_room;
};

/* A sample of the current archive. */
struct webdataset_sample { uint32_t order; size_t image; const char *label; };

/* Texts of labels, which stay where they are. */
struct text_block { struct text_block *next; size_t used; char text[65536]; };

struct shard {
    const char *path;
    enum split split;
    struct file_identity identity;
    uint64_t bytes;
    struct timespec changed;
};

struct webdataset {
    struct image_set images;
    const struct convert_options *options;
    struct stop *stop;
    struct shard_names names;
    struct shard *shards;
    size_t shard_count;
    struct archive_store store;
    struct text_block *texts;
    struct shard_parts parts;
    char member[JSON_MEMBER_BYTES];     /* the member of JSON objects that holds the label; "": not known yet */
    struct csv_table tables[SPLITS_MAX];        /* a row for each sample; csv_row.pixel_row is its index in the list */
    uint64_t seen_bytes;        /* bytes of the current archive that are counted as progress */
    size_t sample_count, labelled_count;
    enum part_kind source;      /* of the labels: PART_LABEL or PART_JSON; PART_OTHER: not known yet */
    uint64_t scattered_count;   /* samples whose files are not neighbours; the first one follows */
    char scattered[200];
    uint64_t differing_count;   /* samples whose .cls and .json hold different numbers; the first one follows */
    char differing[200];
};

static int set_no_memory(const struct webdataset *set)
{
    return convert_fail(set->stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the samples");
}

/* ---- names of files ---- */

/* The length of the key at the beginning of a path: up to the first dot of the file's name. */
static size_t key_bytes_of(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    return (size_t)(name - path) + strcspn(name, ".");
}

static const char *ending_of(const char *path)
{
    const char *const end = path + key_bytes_of(path);
    return *end == '.' ? end + 1 : end;
}

static bool is_one_of(const char *ending, const char *const *endings, size_t count)
{
    size_t i = 0;

    while (i < count && strcasecmp(ending, endings[i]) != 0)
        i++;
    return i < count;
}

/* Is the extension in a list such as "jpg;png"? */
static bool is_listed(const char *ending, const char *list)
{
    for (size_t bytes; *list != '\0'; list += bytes + (list[bytes] != '\0')) {
        bytes = strcspn(list, ";,");
        if (bytes == strlen(ending) && strncasecmp(list, ending, bytes) == 0)
            return true;
    }
    return false;
}

static bool is_last_of(const char *ending, const char *const *endings, size_t count)
{
    const char *const dot = strrchr(ending, '.');
    return is_one_of(dot != NULL ? dot + 1 : ending, endings, count);
}

/* Is it the extension of a JSON document: "json", "info.json"? */
static bool is_json(const char *ending)
{
    static const char *const endings[] = { "json" };
    return is_last_of(ending, endings, 1);
}

/* The kind of a file by its name. The label may have an extension with several dots, too, as in 0001.info.json. */
static enum part_kind kind_of(const struct convert_options *options, const char *path)
{
    const char *const ending = ending_of(path);

    if (options->label_key != NULL && strcasecmp(ending, options->label_key) == 0)
        return is_json(ending) ? PART_JSON : PART_LABEL;
    if (options->image_key != NULL ? is_listed(ending, options->image_key) : image_choice_name(path))
        return PART_IMAGE;
    if (options->label_key == NULL &&
        (is_one_of(ending, label_endings, sizeof(label_endings) / sizeof(label_endings[0])) ||
         is_last_of(ending, label_endings, sizeof(label_endings) / sizeof(label_endings[0]))))
        return PART_LABEL;
    if (is_json(ending) && (options->label_key == NULL || !is_json(options->label_key)))
        return PART_JSON;
    return is_last_of(ending, foreign_endings, sizeof(foreign_endings) / sizeof(foreign_endings[0])) ? PART_FOREIGN
                                                                                                    : PART_OTHER;
}

bool webdataset_begins(const char *path, const atomic_bool *interrupted)
{
    const struct convert_options any = { .jobs = 1 };
    struct archive_walk *walk;
    struct archive_member member;
    char key[ARCHIVE_PATH_MAX + 1] = "";
    bool has_image = false, has_label = false;
    int rc = archive_walk_open(&walk, path, interrupted);

    for (size_t i = 0; rc == 0 && i < PEEKED_MEMBERS && !(has_image && has_label); i++) {
        rc = archive_walk_next(walk, &member);
        if (rc < 0 || member.is_folder)
            continue;
        const size_t bytes = key_bytes_of(member.path);
        if (strlen(key) != bytes || memcmp(key, member.path, bytes) != 0)
            has_image = has_label = false;
        snprintf(key, sizeof(key), "%.*s", (int)bytes, member.path);
        const enum part_kind kind = kind_of(&any, member.path);
        has_image |= kind == PART_IMAGE;
        has_label |= kind == PART_LABEL || kind == PART_JSON;
    }
    archive_walk_close(walk);
    return has_image && has_label;
}

/* ---- files of an archive ---- */

static const char *path_of(const struct webdataset *set, const struct part *part)
{
    return set->parts.names + part->path;
}

/* Keep a text; NULL if out of memory. */
static char *keep_text(struct webdataset *set, const char *text, size_t bytes)
{
    if (set->texts == NULL || set->texts->used + bytes + 1 > sizeof(set->texts->text)) {
        struct text_block *const block = malloc(sizeof(*block));
        if (block == NULL)
            return NULL;
        *block = (struct text_block){ .next = set->texts };
        set->texts = block;
    }
    char *const kept = set->texts->text + set->texts->used;
    memcpy(kept, text, bytes);
    kept[bytes] = '\0';
    set->texts->used += bytes + 1;
    return kept;
}

static int keep_problem(struct webdataset *set, struct part *part, const char *problem)
{
    part->problem = keep_text(set, problem, strlen(problem));
    return part->problem != NULL ? 0 : set_no_memory(set);
}

static int add_part(struct webdataset *set, const char *path, const struct part *part)
{
    struct shard_parts *const parts = &set->parts;
    const size_t bytes = strlen(path) + 1;

    if (parts->count == parts->room) {
        const size_t room = parts->room > 0 ? 2 * parts->room : 1024;
        struct part *const grown = realloc(parts->items, room * sizeof(*grown));
        if (grown == NULL)
            return set_no_memory(set);
        parts->items = grown;
        parts->room = room;
    }
    if (parts->name_bytes + bytes > parts->name_room) {
        const size_t room = 2 * parts->name_room + bytes + 4096;
        char *const grown = realloc(parts->names, room);
        if (grown == NULL)
            return set_no_memory(set);
        parts->names = grown;
        parts->name_room = room;
    }
    memcpy(parts->names + parts->name_bytes, path, bytes);
    parts->items[parts->count] = *part;
    parts->items[parts->count++].path = parts->name_bytes;
    parts->name_bytes += bytes;
    return 0;
}

/* The name of a file or sample for messages: "train-0.tar: a/0001"; only its path if there is one archive. */
static void place_text(const struct webdataset *set, size_t shard, const char *path, size_t bytes, char *text,
                       size_t text_size)
{
    if (set->shard_count > 1)
        snprintf(text, text_size, "%s: %.*s", set->shards[shard].path, (int)bytes, path);
    else
        snprintf(text, text_size, "%.*s", (int)bytes, path);
}

static int walk_fail(const struct webdataset *set, size_t shard, const struct archive_walk *walk, int rc)
{
    return rc == -EFBIG && archive_walk_problem(walk) == NULL
               ? convert_fail(set->stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: " ARCHIVE_STORE_FULL, set->shards[shard].path)
               : archive_walk_fail(walk, set->shards[shard].path, NULL, rc, set->stop);
}

/* Argument of read_head: where the bytes of the current file are. */
struct head_place { const struct webdataset *set; const struct archive_walk *walk; uint16_t input; uint64_t offset; };

static int read_head(void *arg, uint8_t *out, size_t bytes)
{
    const struct head_place *const place = arg;

    if (place->input != ARCHIVE_STORE_INPUT)
        return archive_walk_read_at(place->walk, place->offset, out, bytes);
    memcpy(out, place->set->store.bytes + place->offset, bytes);
    return 0;
}

static int take_image(struct webdataset *set, size_t shard, struct archive_walk *walk,
                      const struct archive_member *member, struct part *part)
{
    struct head_place place = { set, walk, (uint16_t)shard, member->offset };
    char name[2 * ARCHIVE_PATH_MAX];
    bool is_image;

    part->kind = PART_REFUSED;
    place_text(set, shard, member->path, strlen(member->path), name, sizeof(name));
    if (member->bytes > IMAGE_BYTES_MAX) {
        image_choice_too_large(&set->images.choice, name);
        return 0;
    }
    if (!member->is_in_file) {
        const int rc = archive_store_load(&set->store, walk, member);
        if (rc < 0)
            return walk_fail(set, shard, walk, rc);
        place = (struct head_place){ set, walk, ARCHIVE_STORE_INPUT, set->store.count };
    }
    const int rc = image_choice_take(&set->images.choice, name, member->bytes, read_head, &place, &is_image);
    if (rc < 0 || !is_image)
        return rc < 0 ? walk_fail(set, shard, walk, rc) : 0;
    part->kind = PART_IMAGE;
    part->image = (struct image_file){ .place = place.offset, .bytes = (uint32_t)member->bytes,
                                       .input = place.input };
    if (place.input == ARCHIVE_STORE_INPUT)
        archive_store_keep(&set->store, member->bytes);
    return 0;
}

/* Read a label from a text: one line, which is a number or a name. */
static int read_text(struct webdataset *set, struct part *part, const char *text, size_t bytes)
{
    const size_t skipped = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    const struct csv_text label = csv_trimmed(text + skipped, bytes - skipped);

    if (label.bytes == 0)
        return keep_problem(set, part, "is empty");
    if (memchr(label.text, '\0', label.bytes) != NULL)
        return keep_problem(set, part, "is no text");
    if (memchr(label.text, '\n', label.bytes) != NULL)
        return keep_problem(set, part, "has several lines: an image has one class");
    part->label = keep_text(set, label.text, label.bytes);
    return part->label != NULL ? 0 : set_no_memory(set);
}

/* Read a label from a JSON document. A document without a label is no problem if there is another label. */
static int read_json(struct webdataset *set, struct part *part, const char *text, size_t bytes)
{
    char label[JSON_LABEL_BYTES], problem[256], members[400];
    const int rc = json_label_read(text, bytes, set->member, label, problem, sizeof(problem));

    if (rc == -EINVAL)
        snprintf(members, sizeof(members), "has the members %s, which may all be the class: choose one with "
                 "--label-key", problem);
    if (rc == -EINVAL)
        return keep_problem(set, part, members);
    if (rc == -ENODATA)
        return 0;
    if (rc == -EBADMSG)
        return keep_problem(set, part, problem);
    return rc < 0 ? set_no_memory(set) : read_text(set, part, label, strlen(label));
}

static int take_label(struct webdataset *set, size_t shard, struct archive_walk *walk,
                      const struct archive_member *member, struct part *part)
{
    const bool is_json = part->kind == PART_JSON;
    const uint64_t most = is_json ? JSON_BYTES_MAX : LABEL_BYTES_MAX;
    char problem[64];
    uint8_t *bytes;

    if (member->bytes > most) {
        snprintf(problem, sizeof(problem), "has %" PRIu64 " bytes, too many for a label", member->bytes);
        return keep_problem(set, part, problem);
    }
    int rc = archive_member_load(walk, member, &bytes);
    if (rc < 0)
        return walk_fail(set, shard, walk, rc);
    rc = is_json ? read_json(set, part, (const char *)bytes, (size_t)member->bytes)
                 : read_text(set, part, (const char *)bytes, (size_t)member->bytes);
    free(bytes);
    return rc;
}

static int add_member(struct webdataset *set, size_t shard, struct archive_walk *walk,
                      const struct archive_member *member)
{
    const struct part *const last = set->parts.count > 0 ? &set->parts.items[set->parts.count - 1] : NULL;
    struct part part = { .key_bytes = (uint32_t)key_bytes_of(member->path), .order = (uint32_t)set->parts.count,
                         .kind = kind_of(set->options, member->path) };
    int rc = 0;

    if (member->is_folder || image_choice_skips(&set->images.choice, "", member->path))
        return 0;
    const bool goes_on = last != NULL && last->key_bytes == part.key_bytes &&
                         memcmp(path_of(set, last), member->path, part.key_bytes) == 0;
    part.run = last == NULL ? 0 : last->run + !goes_on;
    if (part.kind == PART_IMAGE)
        rc = take_image(set, shard, walk, member, &part);
    else if (part.kind == PART_LABEL || part.kind == PART_JSON)
        rc = take_label(set, shard, walk, member, &part);
    return rc < 0 ? rc : add_part(set, member->path, &part);
}

/* ---- samples of an archive ---- */

static int compare_parts(const void *left, const void *right, void *names)
{
    const struct part *const a = left, *const b = right;
    const char *const one = (const char *)names + a->path, *const other = (const char *)names + b->path;
    const int order = memcmp(one, other, a->key_bytes < b->key_bytes ? a->key_bytes : b->key_bytes);

    if (order != 0 || a->key_bytes != b->key_bytes)
        return order != 0 ? order : a->key_bytes < b->key_bytes ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static bool is_same_key(const struct webdataset *set, const struct part *a, const struct part *b)
{
    return a->key_bytes == b->key_bytes && memcmp(path_of(set, a), path_of(set, b), a->key_bytes) == 0;
}

/* What a sample has. */
struct findings {
    const struct part *image, *other_image, *label, *other_label;
    const struct part *json, *other_json;       /* those with a label come first */
    const struct part *foreign;
    bool is_refused, is_scattered, has_text;
};

static void note_part(struct findings *found, const struct part *part, const char *path)
{
    switch (part->kind) {
    case PART_IMAGE:
        *(found->image == NULL ? &found->image : &found->other_image) = part;
        break;
    case PART_LABEL:
        *(found->label == NULL ? &found->label : &found->other_label) = part;
        break;
    case PART_JSON:
        found->other_json = found->json == NULL || found->json->label == NULL ? found->json : part;
        found->json = found->json == NULL || found->json->label == NULL ? part : found->json;
        break;
    case PART_FOREIGN:
        found->foreign = part;
        break;
    case PART_REFUSED:
        found->is_refused = true;
        break;
    case PART_OTHER:
        found->has_text |= strcasecmp(ending_of(path), "txt") == 0;
        break;
    }
}

static void refuse_sample(struct webdataset *set, size_t shard, const struct part *part, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Add a sample to the refused files, named by its key. */
static void refuse_sample(struct webdataset *set, size_t shard, const struct part *part, const char *format, ...)
{
    char name[2 * ARCHIVE_PATH_MAX], problem[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(problem, sizeof(problem), format, arguments);
    va_end(arguments);
    place_text(set, shard, path_of(set, part), part->key_bytes, name, sizeof(name));
    image_choice_refuse(&set->images.choice, name, problem);
}

#define SHOWN 100
#define ENDING(set, part) SHOWN, ending_of(path_of(set, part))

/* Refuse a sample without a usable label; *label_out is NULL then. */
static void find_label(struct webdataset *set, size_t shard, const struct findings *found, const char **label_out)
{
    const struct part *const part = found->label != NULL ? found->label : found->json;

    *label_out = NULL;
    if (found->other_label != NULL)
        refuse_sample(set, shard, found->label, "has labels in .%.*s and .%.*s: choose one with --label-key",
                      ENDING(set, found->label), ENDING(set, found->other_label));
    else if (found->label == NULL && found->other_json != NULL && found->other_json->label != NULL)
        refuse_sample(set, shard, part, "has labels in .%.*s and .%.*s: choose one with --label-key",
                      ENDING(set, part), ENDING(set, found->other_json));
    else if (part != NULL && part->problem != NULL)
        refuse_sample(set, shard, part, "its .%.*s %s", ENDING(set, part), part->problem);
    else if (part != NULL && part->label != NULL && set->source != PART_OTHER && set->source != part->kind)
        refuse_sample(set, shard, part, "has its label in .%.*s, and samples before it in %s: choose one with "
                      "--label-key", ENDING(set, part), set->source == PART_JSON ? ".json" : "a file of their own");
    else if (part != NULL && part->label != NULL)
        *label_out = part->label;
    else if (found->foreign != NULL)
        refuse_sample(set, shard, found->image, "has no label but in .%.*s, perhaps, which is not read (pickled files "
                      "run any command): write .cls or .json", ENDING(set, found->foreign));
    else if (part != NULL && set->member[0] != '\0')
        refuse_sample(set, shard, found->image, "its .json has no member %s", set->member);
    else
        refuse_sample(set, shard, found->image, "has no label%s", part != NULL ? " in its .json (--label-key=MEMBER "
                      "chooses a member)" : found->has_text ? " but a .txt, perhaps (--label-key=txt)" : "");
}

/* Note a sample whose .cls and .json hold different numbers. */
static void compare_labels(struct webdataset *set, size_t shard, const struct findings *found)
{
    uint32_t one, other;

    if (found->label == NULL || found->json == NULL || found->label->label == NULL || found->json->label == NULL)
        return;
    const char *const text = found->label->label, *const json = found->json->label;
    if (csv_read_number((struct csv_text){ text, strlen(text) }, &one) &&
        csv_read_number((struct csv_text){ json, strlen(json) }, &other) && one != other &&
        set->differing_count++ == 0)
        place_text(set, shard, path_of(set, found->image), found->image->key_bytes, set->differing,
                   sizeof(set->differing));
}

/* Find the image and the label of a sample, which has the parts first ... end - 1. False if it is refused or no
 * sample. */
static bool read_sample(struct webdataset *set, size_t shard, size_t first, size_t end,
                        struct webdataset_sample *sample_out)
{
    const struct part *const parts = set->parts.items;
    struct findings found = { 0 };

    for (size_t i = first; i < end; i++) {
        note_part(&found, &parts[i], path_of(set, &parts[i]));
        found.is_scattered |= parts[i].run != parts[first].run;
        for (size_t k = first; k < i; k++)
            if (strcmp(path_of(set, &parts[i]), path_of(set, &parts[k])) == 0) {
                refuse_sample(set, shard, &parts[i], "has two files .%.*s", ENDING(set, &parts[i]));
                return false;
            }
    }
    if (found.is_refused || (found.image == NULL && found.label == NULL && found.json == NULL))
        return false;
    if (found.image == NULL && found.label == NULL && found.json->label == NULL)
        return false;           /* a description of the whole set */
    set->sample_count++;
    if (found.image == NULL)
        refuse_sample(set, shard, &parts[first], "has no image (jpg, jpeg or png)%s",
                      found.foreign != NULL ? ": arrays are not read" : "");
    else if (found.other_image != NULL)
        refuse_sample(set, shard, found.image, "has several images, .%.*s and .%.*s: choose one with --image-key (a "
                      "key ends at the first dot of the file's name)", ENDING(set, found.image),
                      ENDING(set, found.other_image));
    if (found.image == NULL || found.other_image != NULL)
        return false;
    *sample_out = (struct webdataset_sample){ .order = parts[first].order, .image = (size_t)(found.image - parts) };
    find_label(set, shard, &found, &sample_out->label);
    if (sample_out->label != NULL)
        set->source = found.label != NULL ? PART_LABEL : PART_JSON;
    compare_labels(set, shard, &found);
    if (found.is_scattered && set->scattered_count++ == 0)
        place_text(set, shard, path_of(set, found.image), found.image->key_bytes, set->scattered,
                   sizeof(set->scattered));
    return sample_out->label != NULL;
}

static int compare_samples(const void *left, const void *right)
{
    const struct webdataset_sample *const a = left, *const b = right;
    return (a->order > b->order) - (a->order < b->order);
}

static int add_row(struct webdataset *set, struct csv_table *table, const char *label)
{
    if (table->row_count == table->row_room) {
        const size_t room = table->row_room > 0 ? 2 * table->row_room : 1024;
        struct csv_row *const grown = realloc(table->rows, room * sizeof(*grown));
        if (grown == NULL)
            return set_no_memory(set);
        table->rows = grown;
        table->row_room = room;
    }
    table->rows[table->row_count++] = (struct csv_row){ .label = { label, strlen(label) },
                                                        .pixel_row = set->images.list.count - 1 };
    return 0;
}

/* Add a sample to the list; its path is "SHARD/PATH" if there are several archives. */
static int add_sample(struct webdataset *set, size_t shard, struct csv_table *table,
                      const struct webdataset_sample *sample)
{
    const struct part *const part = &set->parts.items[sample->image];
    struct image_file file = part->image;
    char path[2 * ARCHIVE_PATH_MAX];
    const size_t before = set->shard_count > 1 ? strlen(set->shards[shard].path) + 1 : 0;

    snprintf(path, sizeof(path), "%s%s%s", before > 0 ? set->shards[shard].path : "", before > 0 ? "/" : "",
             path_of(set, part));
    file.name_at = (uint16_t)before;
    if (image_list_add(&set->images.list, path, &file) < 0)
        return set_no_memory(set);
    set->labelled_count++;
    return add_row(set, table, sample->label);
}

/* Add the samples of shard number `shard` to the table, in the order of the archive. */
static int add_samples(struct webdataset *set, size_t shard, struct csv_table *table)
{
    struct shard_parts *const parts = &set->parts;
    struct webdataset_sample *const samples = calloc(parts->count + 1, sizeof(*samples));
    size_t count = 0, next;
    int rc = samples != NULL ? 0 : set_no_memory(set);

    if (rc == 0 && parts->count > 0)
        qsort_r(parts->items, parts->count, sizeof(*parts->items), compare_parts, parts->names);
    for (size_t first = 0; rc == 0 && first < parts->count; first = next) {
        for (next = first + 1; next < parts->count && is_same_key(set, &parts->items[first], &parts->items[next]);)
            next++;
        count += read_sample(set, shard, first, next, &samples[count]);
    }
    if (count > 0)
        qsort(samples, count, sizeof(*samples), compare_samples);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_sample(set, shard, table, &samples[i]);
    free(samples);
    return rc;
}

/* ---- archives ---- */

static void note_progress(struct webdataset *set, const struct archive_walk *walk)
{
    const uint64_t at = archive_walk_offset(walk);

    if (at > set->seen_bytes)
        progress_add(&set->images.choice.progress, at - set->seen_bytes);
    set->seen_bytes = at;
}

static int read_shard(struct webdataset *set, size_t shard, struct csv_table *table)
{
    struct archive_walk *walk;
    struct archive_member member;
    int rc = archive_walk_open(&walk, set->shards[shard].path, set->options->interrupted);
    bool is_reported = false;

    set->seen_bytes = 0;
    set->parts.count = set->parts.name_bytes = 0;
    while (rc == 0 && (rc = archive_walk_next(walk, &member)) == 0) {
        rc = add_member(set, shard, walk, &member);
        is_reported = rc < 0;
        note_progress(set, walk);
    }
    if (rc != -ENODATA && !is_reported)
        (void)walk_fail(set, shard, walk, rc);
    archive_walk_close(walk);
    if (rc != -ENODATA)
        return rc;
    const size_t before = set->sample_count;
    rc = add_samples(set, shard, table);
    if (rc == 0 && set->sample_count == before)
        log_message(LOG_RUN, "%s: has no sample", set->shards[shard].path);
    return rc;
}

static int read_image(const struct image_set *images, const struct image_file *file, uint8_t *out)
{
    const struct webdataset *const set = images->arg;
    struct stat status;

    if (file->input == ARCHIVE_STORE_INPUT) {
        memcpy(out, set->store.bytes + file->place, file->bytes);
        return 0;
    }
    const struct shard *const shard = &set->shards[file->input];
    const int fd = open(shard->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const bool is_same = fstat(fd, &status) == 0 && (uint64_t)status.st_size == shard->bytes &&
                         status.st_mtim.tv_sec == shard->changed.tv_sec &&
                         status.st_mtim.tv_nsec == shard->changed.tv_nsec;
    const int rc = is_same ? file_read_at(fd, file->place, out, file->bytes) : -EBADMSG;
    close(fd);
    return rc;
}

static int compare_identities(const void *left, const void *right)
{
    const struct shard *const a = *(const struct shard *const *)left, *const b = *(const struct shard *const *)right;
    return file_identity_compare(&a->identity, &b->identity);
}

static int refuse_twice(const struct webdataset *set, const struct shard *one, const struct shard *other)
{
    return convert_fail(set->stop, EXIT_CODE_USAGE, -EINVAL, "%s and %s are the same shard%s", one->path, other->path,
                        file_identity_compare(&one->identity, &other->identity) == 0
                        ? ": give it once" : " by their names: remove one of them");
}

/* The length of the path of a shard without the extensions of an archive: "a" of "a.tar.gz" and of "a.tgz". */
static size_t stem_bytes(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    const char *end = strstr(name, ".tar");

    if (end == NULL)
        end = strstr(name, ".tgz");
    return end != NULL ? (size_t)(end - path) : strlen(path);
}

static int compare_stems(const void *left, const void *right)
{
    const char *const a = (*(const struct shard *const *)left)->path;
    const char *const b = (*(const struct shard *const *)right)->path;
    const size_t a_bytes = stem_bytes(a), b_bytes = stem_bytes(b);
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);

    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* Refuse a shard that is given twice, or compressed and uncompressed: its samples would count twice, or be in two
 * sets. */
static int check_twice(const struct webdataset *set)
{
    static int (*const orders[])(const void *, const void *) = { compare_identities, compare_stems };
    const struct shard **const sorted = calloc(set->shard_count + 1, sizeof(struct shard *));
    int rc = sorted != NULL ? 0 : set_no_memory(set);

    for (size_t k = 0; k < set->shard_count && rc == 0; k++)
        sorted[k] = &set->shards[k];
    for (size_t order = 0; order < sizeof(orders) / sizeof(orders[0]) && rc == 0; order++) {
        qsort(sorted, set->shard_count, sizeof(struct shard *), orders[order]);
        for (size_t i = 1; i < set->shard_count && rc == 0; i++)
            rc = orders[order](&sorted[i - 1], &sorted[i]) != 0 ? 0 : refuse_twice(set, sorted[i - 1], sorted[i]);
    }
    free(sorted);
    return rc;
}

/* The split that the name of a shard means, or else that of its folder: train-000.tar, train/000.tar. */
static enum split split_of(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    const enum split split = split_name_read(name, strcspn(name, ".")).split;

    if (split != SPLIT_UNSAID || slash == NULL)
        return split;
    const char *begin = slash;
    while (begin > path && begin[-1] != '/')
        begin--;
    const struct split_name folder = split_name_read(begin, (size_t)(slash - begin));
    return folder.is_whole ? folder.split : SPLIT_UNSAID;
}

static int list_shards(struct webdataset *set)
{
    struct stat status;
    uint64_t bytes = 0;

    set->shards = calloc(set->names.count + 1, sizeof(*set->shards));
    if (set->shards == NULL)
        return set_no_memory(set);
    for (size_t i = 0; i < set->names.count; i++) {
        const char *const path = set->names.paths[i];
        if (stat(path, &status) != 0)
            return convert_fail(set->stop, EXIT_CODE_DATA, -errno, "%s: cannot open the shard: %s", path,
                                exit_cause(-errno));
        bytes += (uint64_t)status.st_size;
        set->shards[set->shard_count++] = (struct shard){ path, split_of(path), file_identity_of(&status),
                                                          (uint64_t)status.st_size, status.st_mtim };
    }
    image_choice_count_bytes(&set->images.choice, bytes);
    return check_twice(set);
}

/* ---- splits ---- */

static size_t count_split(const struct webdataset *set, enum split split, const struct shard **first_out)
{
    size_t count = 0;

    for (size_t i = 0; i < set->shard_count; i++) {
        if (set->shards[i].split == split && count++ == 0)
            *first_out = &set->shards[i];
    }
    return count;
}

/* Decide what the names of the shards mean: all shards are for training unless names say otherwise. */
static int decide_splits(struct webdataset *set)
{
    const struct shard *first[SPLIT_UNLABELLED + 1] = { NULL };
    size_t counts[SPLIT_UNLABELLED + 1], kinds = 0;
    enum split only = SPLIT_UNSAID;

    for (int split = 0; split <= SPLIT_UNLABELLED; split++) {
        counts[split] = count_split(set, (enum split)split, &first[split]);
        kinds += counts[split] > 0;
        only = counts[split] > 0 ? (enum split)split : only;
    }
    if (kinds == 1 && only != SPLIT_UNSAID && only != SPLIT_TRAIN)
        log_message(LOG_RUN, "%s: is called %s: the shards become the training set", first[only]->path,
                    split_text(only));
    for (size_t i = 0; i < set->shard_count && kinds == 1; i++)
        set->shards[i].split = SPLIT_TRAIN;
    if (kinds == 1)
        return 0;
    const enum split named = counts[SPLIT_TRAIN] > 0 ? SPLIT_TRAIN : only;
    if (counts[SPLIT_UNSAID] > 0)
        return convert_fail(set->stop, EXIT_CODE_USAGE, -EINVAL, "%s is a split by its name (%s), and %s is none: call "
                            "shards train*, val* and test*, or convert them one after the other", first[named]->path,
                            split_text(named), first[SPLIT_UNSAID]->path);
    if (counts[SPLIT_TRAIN] == 0)
        return convert_fail(set->stop, EXIT_CODE_USAGE, -EINVAL, "%s is a split by its name (%s), and no shard is for "
                            "training: call those train*", first[named]->path, split_text(named));
    if (counts[SPLIT_UNLABELLED] > 0)
        log_message(LOG_RUN, "left out %zu shard%s, such as %s, which ha%s no classes by %s name",
                    counts[SPLIT_UNLABELLED], counts[SPLIT_UNLABELLED] == 1 ? "" : "s", first[SPLIT_UNLABELLED]->path,
                    counts[SPLIT_UNLABELLED] == 1 ? "s" : "ve", counts[SPLIT_UNLABELLED] == 1 ? "its" : "their");
    return 0;
}

static void row_place(const void *arg, const struct csv_row *row, char *text, size_t text_size)
{
    const struct image_list *const list = arg;
    snprintf(text, text_size, "%s", image_list_path(list, &list->files[row->pixel_row]));
}

/* Read the shards of each split. */
static int read_splits(struct webdataset *set)
{
    struct image_layout *const layout = &set->images.layout;
    const struct shard *first;
    const bool has_validation = count_split(set, SPLIT_VALIDATION, &first) > 0;
    int rc = 0;

    for (int split = SPLIT_TRAIN; split <= SPLIT_TEST && rc == 0; split++) {
        struct csv_table *const table = &set->tables[layout->split_count];
        const size_t before = set->images.list.count;
        *table = (struct csv_table){ .input = set->images.input, .place = row_place, .arg = &set->images.list };
        for (size_t i = 0; i < set->shard_count && rc == 0; i++)
            rc = set->shards[i].split == (enum split)split ? read_shard(set, i, table) : 0;
        const char *const name = split == SPLIT_TEST && !has_validation ? "validation" : split_text((enum split)split);
        if (set->images.list.count > before)
            layout->splits[layout->split_count++] = (struct image_split){ name, before,
                                                                          set->images.list.count - before };
    }
    return rc;
}

/* ---- the converter ---- */

static void report_samples(const struct webdataset *set)
{
    const char *const input = set->images.input;

    if (set->scattered_count > 0)
        log_message(LOG_RUN, "%s: the files of %" PRIu64 " sample%s are not neighbours, such as those of %s: joined by "
                    "their key; readers in order take them for several samples (write the archive with tar "
                    "--sort=name)", input, set->scattered_count, set->scattered_count == 1 ? "" : "s", set->scattered);
    if (set->differing_count > 0)
        log_message(LOG_RUN, "%s: .cls and .json%s%s of %" PRIu64 " sample%s hold different numbers, such as those of "
                    "%s: using .cls (--label-key chooses)", input, set->member[0] != '\0' ? " member " : "",
                    set->member, set->differing_count, set->differing_count == 1 ? "" : "s", set->differing);
}

/* Refuse a set without samples, or whose samples have no labels, in one message. */
static int check_samples(struct webdataset *set)
{
    const struct image_layout *const layout = &set->images.layout;
    const char *const input = set->images.input, *const refused = set->images.choice.refused[0];

    if (set->labelled_count == 0)
        image_choice_report(&set->images.choice, input);
    if (set->sample_count == 0 && set->images.choice.refused_count == 0)
        return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: has no sample of an image and a label with one "
                            "key (0001.jpg and 0001.cls or 0001.json); convert archives with a folder for each class "
                            "with 'tar'", input);
    if (set->labelled_count == 0)
        return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: none of %zu samples can be used: %s", input,
                            set->sample_count, refused != NULL ? refused : "no image can be read");
    if (strcmp(layout->splits[0].name, "train") != 0)
        return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: no training sample can be used", input);
    return 0;
}

static int check_classes(struct webdataset *set)
{
    const struct csv_label_choice choice = { "--label-key", set->options->label_key != NULL };
    struct image_layout *const layout = &set->images.layout;
    size_t distinct;

    int rc = csv_classes_find(set->tables, layout->split_count, &choice, set->options->interrupted, set->stop,
                              &layout->class_names, &layout->class_count);
    if (rc < 0)
        return rc;
    if (csv_classes_count(&set->tables[0], layout->class_count, &distinct) < 0)
        return set_no_memory(set);
    if (distinct < 2)
        return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: all training samples have the same class",
                            set->images.input);
    if (distinct == set->tables[0].row_count && distinct >= IDS_LEAST)
        return convert_fail(set->stop, EXIT_CODE_USAGE, -EINVAL, "%s: each training sample has another label, as ids "
                            "and captions are: choose the label with --label-key", set->images.input);
    for (size_t split = 0; split < layout->split_count; split++)
        for (size_t i = 0; i < set->tables[split].row_count; i++)
            set->images.list.files[set->tables[split].rows[i].pixel_row].label = set->tables[split].rows[i].class;
    return 0;
}

static int find_samples(struct webdataset *set)
{
    int rc = shard_names_expand(&set->names, set->options->inputs, set->options->input_count, set->stop);

    set->images.input = set->names.count == 1 ? set->names.paths[0] : "the shards";
    if (rc == 0)
        rc = list_shards(set);
    if (rc == 0 && shard_names_report_gaps(&set->names) < 0)
        rc = set_no_memory(set);
    if (rc == 0)
        rc = decide_splits(set);
    if (rc == 0)
        rc = read_splits(set);
    if (rc == 0)
        rc = check_samples(set);
    if (rc == 0)
        report_samples(set);
    if (rc == 0)
        rc = image_set_end_choice(&set->images, set->options);
    return rc == 0 ? check_classes(set) : rc;
}

static int webdataset_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct webdataset *const set = conversion->state;

    set->options = options;
    set->stop = stop;
    set->source = PART_OTHER;
    archive_store_init(&set->store);
    set->images.stop = stop;
    set->images.read = read_image;
    set->images.arg = set;
    if (options->label_key != NULL && !is_json(options->label_key))
        snprintf(set->member, sizeof(set->member), "%s", options->label_key);
    image_choice_begin(&set->images.choice, IMAGE_CHOICE_STORED, 0);
    set->images.choice.orientation = image_change_orientation(&options->change);
    conversion->origin = "samples of WebDataset";
    const int rc = find_samples(set);
    if (rc == 0)
        image_set_describe(&set->images, conversion);
    return rc;
}

static void webdataset_release(struct conversion *conversion)
{
    struct webdataset *const set = conversion->state;

    for (size_t i = 0; i < SPLITS_MAX; i++)
        free(set->tables[i].rows);
    for (struct text_block *block = set->texts, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    free(set->parts.items);
    free(set->parts.names);
    free(set->shards);
    shard_names_release(&set->names);
    archive_store_release(&set->store);
    image_set_release(&set->images);
}

const struct converter convert_webdataset = {
    .name = "webdataset",
    .summary = "samples of WebDataset in tar archives: KEY.jpg (jpeg, png) and KEY.cls, or KEY.json with a member "
               "label, class, ...; a folder of shards, a quoted pattern or a range such as 'train-{000..099}.tar' are "
               "shards, too",
    .inputs = "SHARD...",
    .input_count_least = 1,
    .input_count_most = SHARD_NAMES_MAX,
    .takes = CONVERT_IMAGES | CONVERT_KEYS,
    .has_named_inputs = true,
    .state_bytes = sizeof(struct webdataset),
    .prepare = webdataset_prepare,
    .release = webdataset_release,
};
