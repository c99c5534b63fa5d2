/* The converter of images in archives. Each archive is read once from front to back, to examine the first bytes of
 * every file and store where the images are. Shuffling needs the images in any order: those of an uncompressed tar
 * archive are read again from its file when their records are written; those of other archives are kept in memory,
 * up to half of the available memory. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"
#include "stage/text/shell_word.h"
#include "tools/convert/archive_store.h"
#include "tools/convert/archive_walk.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_set.h"
#include "tools/convert/siblings.h"

#define ARCHIVES_MAX 64u

struct archive_set {
    struct image_set images;
    const struct convert_options *options;
    struct archive_walk *archives[ARCHIVES_MAX];
    size_t archive_count;
    struct archive_store store;
    uint64_t seen_bytes;            /* bytes of the current archive that are counted as progress */
    /* the splits that the names of the archives mean; all SPLIT_UNSAID if they mean none */
    enum split splits[ARCHIVES_MAX];
    char path[ARCHIVE_PATH_MAX + 32];   /* path of the current member, inside a folder named after its split */
};

/* Argument of read_head: where the bytes of the current file are. */
struct file_bytes {
    const struct archive_set *set;
    uint16_t input;
    uint64_t offset;
};

/* Does the file have the name of a part of an archive, as split and 7z make them: ".aa", ".part-ab", "_01", ".001"? */
static bool is_part(const char *path)
{
    const size_t length = strlen(path), digits = strspn(path + (length > 2 ? length - 2 : 0), "0123456789");
    const char *end = path + length - (length > 2 ? 2 : 0);

    if (length < 4 || !(digits == 2 || (end[0] == 'a' && end[1] >= 'a' && end[1] <= 'z')))
        return false;
    while (end > path && digits == 2 && isdigit((unsigned char)end[-1]))
        end--;
    return end > path && (strchr("._-", end[-1]) != NULL || (end - path > 4 && strncmp(end - 4, "part", 4) == 0));
}

/* End the conversion because of the archive that was opened last, or one of its members. */
static int archive_fail(struct archive_set *set, int rc)
{
    const size_t last = set->archive_count - 1;
    const char *const path = set->options->inputs[last];
    char problem[512] = "";

    if (rc == -EBADMSG && is_part(path))
        snprintf(problem, sizeof(problem), "%s (by its name a part of an archive: first join all parts in their order, "
                 "with cat)", archive_walk_problem(set->archives[last]));
    return archive_walk_fail(set->archives[last], path, problem[0] != '\0' ? problem : NULL, rc, set->images.stop);
}

/* Load the data of the member into the store. */
static int load_member(struct archive_set *set, struct archive_walk *walk, const struct archive_member *member)
{
    const int rc = archive_store_load(&set->store, walk, member);

    if (rc == -EFBIG)
        return convert_fail(set->images.stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: " ARCHIVE_STORE_FULL,
                            set->options->inputs[set->archive_count - 1]);
    return rc < 0 ? archive_fail(set, rc) : 0;
}

static int read_bytes(const struct archive_set *set, uint16_t input, uint64_t offset, void *out, size_t bytes)
{
    if (input != ARCHIVE_STORE_INPUT)
        return archive_walk_read_at(set->archives[input], offset, out, bytes);
    memcpy(out, set->store.bytes + offset, bytes);
    return 0;
}

static int read_head(void *arg, uint8_t *out, size_t bytes)
{
    const struct file_bytes *const file = arg;
    return read_bytes(file->set, file->input, file->offset, out, bytes);
}

static int read_image(const struct image_set *images, const struct image_file *file, uint8_t *out)
{
    return read_bytes(images->arg, file->input, file->place, out, file->bytes);
}

/* The path of a member. If the name of its archive means a split, the path is prefixed with a folder of that split. */
static const char *path_of(struct archive_set *set, const struct archive_member *member)
{
    const enum split split = set->splits[set->archive_count - 1];
    if (split == SPLIT_UNSAID)
        return member->path;
    snprintf(set->path, sizeof(set->path), "%s/%s", split_text(split), member->path);
    return set->path;
}

static int add_file(struct archive_set *set, struct archive_walk *walk, const struct archive_member *member)
{
    struct file_bytes bytes = { set, (uint16_t)(set->archive_count - 1), member->offset };
    bool is_image;

    if (member->bytes > IMAGE_BYTES_MAX) {
        image_choice_too_large(&set->images.choice, member->path);
        return 0;
    }
    if (!member->is_in_file) {
        const int rc = load_member(set, walk, member);
        if (rc < 0)
            return rc;
        bytes = (struct file_bytes){ set, ARCHIVE_STORE_INPUT, set->store.count };
    }
    int rc = image_choice_take(&set->images.choice, member->path, member->bytes, read_head, &bytes, &is_image);
    if (rc < 0 || !is_image)
        return rc < 0 ? archive_fail(set, rc) : 0;
    const struct image_file file = { .place = bytes.offset, .bytes = (uint32_t)member->bytes, .input = bytes.input };
    rc = image_list_add(&set->images.list, path_of(set, member), &file);
    if (rc == 0 && bytes.input == ARCHIVE_STORE_INPUT)
        archive_store_keep(&set->store, member->bytes);
    return rc < 0 ? archive_fail(set, rc) : 0;
}

static int add_member(struct archive_set *set, struct archive_walk *walk, const struct archive_member *member)
{
    const struct image_file folder = { .is_folder = true };

    if (member->path[0] == '\0' || image_choice_skips(&set->images.choice, "", member->path))
        return 0;
    if (!member->is_folder)
        return add_file(set, walk, member);
    const int rc = image_list_add(&set->images.list, path_of(set, member), &folder);
    return rc < 0 ? archive_fail(set, rc) : 0;
}

static void note_progress(struct archive_set *set, const struct archive_walk *walk)
{
    const uint64_t at = archive_walk_offset(walk);

    if (at > set->seen_bytes)
        progress_add(&set->images.choice.progress, at - set->seen_bytes);
    set->seen_bytes = at;
}

static int add_archive(struct archive_set *set, const char *path)
{
    struct archive_walk **const walk = &set->archives[set->archive_count++];
    struct archive_member member;
    int rc = archive_walk_open(walk, path, set->options->interrupted);

    if (rc < 0)
        return archive_fail(set, rc);
    set->seen_bytes = 0;
    while ((rc = archive_walk_next(*walk, &member)) == 0) {
        rc = add_member(set, *walk, &member);
        if (rc < 0)
            return rc;
        note_progress(set, *walk);
    }
    if (rc != -ENODATA)
        return archive_fail(set, rc);
    archive_walk_end(*walk);
    return 0;
}

/* Refuse two members of the same name: if the archive was unpacked, one would overwrite the other. */
static int refuse_duplicates(struct archive_set *set)
{
    const struct image_list *list = &set->images.list;

    image_list_sort(&set->images.list);
    for (size_t i = 1; i < list->count; i++) {
        const struct image_file *a = &list->files[i - 1], *b = &list->files[i];
        if (strcmp(image_list_path(list, a), image_list_path(list, b)) != 0 || (a->is_folder && b->is_folder))
            continue;
        return convert_fail(set->images.stop, EXIT_CODE_DATA, -EBADMSG, "%s: the path %s occurs twice",
                            set->images.input, image_list_path(list, b));
    }
    return 0;
}

static const char *name_of(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int refuse_names(const struct archive_set *set, const struct sibling *archives,
                        const struct siblings_reading *reading)
{
    const char *const named = archives[reading->named].name;
    const bool has_train = reading->meaning != SIBLINGS_NO_TRAIN;

    return convert_fail(set->images.stop, EXIT_CODE_USAGE, -EINVAL, "%s is a split by its name, and %s is %s: call the "
                        "archives of a training set train*, or give --folders-are-classes to join all archives", named,
                        has_train ? archives[reading->other].name : "no archive",
                        has_train ? "none" : "for training");
}

/* If the names of the archives mean splits, such as train and test, each is a split, whatever folders it contains.
 * Otherwise the archives are joined into one set. */
static int find_splits(struct archive_set *set)
{
    const struct convert_options *const options = set->options;
    struct sibling archives[ARCHIVES_MAX];

    if (options->input_count == 1 || options->folders_are_classes)
        return 0;
    for (size_t i = 0; i < options->input_count; i++) {
        const char *const name = name_of(options->inputs[i]);
        archives[i] = (struct sibling){ name, strlen(name), true, true };
    }
    const struct siblings_reading reading = siblings_read(archives, options->input_count);
    if ((reading.splits & ~(1u << SPLIT_TRAIN)) == 0) {
        log_message(LOG_RUN, "%s, %s%s are joined into one set: call archives of other sets val* and test*",
                    archives[0].name, archives[1].name, options->input_count > 2 ? ", ..." : "");
        return 0;
    }
    if (reading.meaning == SIBLINGS_CLASSES)
        log_message(LOG_RUN, "%s: may be for validation or testing by its name: all archives are for training",
                    archives[reading.named].name);
    if (reading.meaning == SIBLINGS_CLASSES)
        return 0;
    if (reading.meaning != SIBLINGS_SPLITS)
        return refuse_names(set, archives, &reading);
    for (size_t i = 0; i < options->input_count; i++)
        set->splits[i] = split_name_read(archives[i].name, archives[i].bytes).split;
    return 0;
}

static int find_images(struct archive_set *set)
{
    struct image_set *images = &set->images;
    int rc = find_splits(set);

    for (size_t i = 0; i < set->options->input_count && rc == 0; i++)
        rc = add_archive(set, set->options->inputs[i]);
    if (rc == 0)
        rc = image_set_end_choice(images, set->options);
    if (rc == 0)
        rc = refuse_duplicates(set);
    if (rc == 0)
        rc = image_set_find_layout(images);
    return rc;
}

/* The total size of all archives, for progress. */
static uint64_t count_bytes(const struct convert_options *options)
{
    uint64_t bytes = 0;
    struct stat status;

    for (size_t i = 0; i < options->input_count; i++)
        bytes += stat(options->inputs[i], &status) == 0 ? (uint64_t)status.st_size : 0;
    return bytes;
}

/* The command that reads the archives as shards of WebDataset. */
static void name_webdataset(const struct convert_options *options, char *text, size_t text_size)
{
    char quoted[512];
    size_t length = (size_t)snprintf(text, text_size, CONVERT_PROGRAM " webdataset");

    for (size_t i = 0; i < options->input_count && i < 2; i++)
        length += (size_t)snprintf(text + length, text_size > length ? text_size - length : 0, " %s",
                                   shell_word(options->inputs[i], quoted, sizeof(quoted) / 2));
    if (options->input_count > 2 && length < text_size)
        snprintf(text + length, text_size - length, " ...");
}

static int archive_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct archive_set *const set = conversion->state;

    set->options = options;
    archive_store_init(&set->store);
    set->images.input = options->input_count == 1 ? options->inputs[0] : "the archives";
    set->images.stop = stop;
    set->images.folders_are_classes = options->folders_are_classes;
    set->images.is_archive = true;
    name_webdataset(options, set->images.webdataset, sizeof(set->images.webdataset));
    image_choice_begin(&set->images.choice, IMAGE_CHOICE_STORED, 0);
    set->images.choice.orientation = image_change_orientation(&options->change);
    image_choice_count_bytes(&set->images.choice, count_bytes(options));
    set->images.read = read_image;
    set->images.arg = set;
    conversion->origin = "images in archives";
    const int rc = find_images(set);
    if (rc == 0)
        image_set_describe(&set->images, conversion);
    return rc;
}

static void archive_release(struct conversion *conversion)
{
    struct archive_set *const set = conversion->state;

    for (size_t i = 0; i < set->archive_count; i++)
        archive_walk_close(set->archives[i]);
    image_set_release(&set->images);
    archive_store_release(&set->store);
}

const struct converter convert_archive = {
    .name = "tar",
    .summary = "JPEG and PNG images in archives (tar, also compressed with gzip, bzip2, xz, zstd or lz4; zip; 7z): "
               "CLASS/IMAGE or train/CLASS/IMAGE",
    .inputs = "FILE...",
    .input_count_least = 1,
    .input_count_most = ARCHIVES_MAX,
    .takes = CONVERT_IMAGES | CONVERT_FOLDERS,
    .state_bytes = sizeof(struct archive_set),
    .prepare = archive_prepare,
    .release = archive_release,
};
