/* Splits and classes of a set of encoded images, from their paths, and the samples of the set. Prepared by the main
 * thread; samples are requested by the writing threads. Everything about paths is done on the sorted list: the
 * contents of a folder are consecutive, so a folder is a range. */
#include "tools/convert/image_set.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/log.h"

/* ---- splits and classes ---- */

enum split { SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST, SPLIT_COUNT };

static const struct { const char *folder; enum split split; } split_folders[] = {
    { "train", SPLIT_TRAIN }, { "training", SPLIT_TRAIN },
    { "validation", SPLIT_VALIDATION }, { "valid", SPLIT_VALIDATION }, { "val", SPLIT_VALIDATION },
    { "dev", SPLIT_VALIDATION }, { "eval", SPLIT_VALIDATION },
    { "test", SPLIT_TEST }, { "testing", SPLIT_TEST },
};

/* A folder: entries first ... end - 1 of the list, whose paths are equal up to and including the folder's name and
 * "/". */
struct range {
    size_t first, end;
    size_t begin;               /* offset in the paths of the names inside the folder */
};

/* Iterates over the folders in a folder. */
struct folders {
    const struct image_list *list;
    struct range in;
    size_t next;
    /* the current folder */
    struct range range;
    const char *name;
    size_t name_bytes;
};

/* The top level of the data set. */
struct top {
    struct image_list *list;
    const char *input;
    struct stop *stop;
    struct range whole;
    struct range splits[SPLIT_COUNT];
    size_t split_count, other_count;
    size_t stray_count;         /* images in no class, and the first of them */
    const char *first_stray;
};

static const char *path_of(const struct image_list *list, size_t i)
{
    return image_list_path(list, &list->files[i]);
}

/* Is the entry in a folder of this range, or is it one? */
static bool is_in_folder(const struct image_list *list, size_t i, size_t begin)
{
    return list->files[i].is_folder || strchr(path_of(list, i) + begin, '/') != NULL;
}

/* The end of the entries with the same path component at `begin`. */
static size_t same_component_end(const struct image_list *list, size_t first, size_t end, size_t begin, size_t bytes)
{
    const char *part = path_of(list, first) + begin;
    size_t i = first + 1;

    while (i < end && strncmp(path_of(list, i) + begin, part, bytes) == 0 &&
           strchr("/", path_of(list, i)[begin + bytes]) != NULL)
        i++;
    return i;
}

/* Go to the next folder, skipping images next to the folders. */
static bool next_folder(struct folders *folders)
{
    size_t i = folders->next;

    while (i < folders->in.end && !is_in_folder(folders->list, i, folders->in.begin))
        i++;
    if (i >= folders->in.end)
        return false;
    folders->name = path_of(folders->list, i) + folders->in.begin;
    folders->name_bytes = strcspn(folders->name, "/");
    folders->range = (struct range){
        i, same_component_end(folders->list, i, folders->in.end, folders->in.begin, folders->name_bytes),
        folders->in.begin + folders->name_bytes + 1,
    };
    folders->next = folders->range.end;
    return true;
}

static struct folders folders_in(const struct image_list *list, struct range range)
{
    return (struct folders){ .list = list, .in = range, .next = range.first };
}

/* Are there folders in the folder? Its own entry, the first of its range, has a shorter path. */
static bool has_folders(const struct image_list *list, struct range range)
{
    for (size_t i = range.first; i < range.end; i++) {
        const bool is_itself = strlen(path_of(list, i)) < range.begin;
        if (!is_itself && is_in_folder(list, i, range.begin))
            return true;
    }
    return false;
}

/* The contents of a folder, without its own entry. */
static struct range inside(const struct image_list *list, struct range range)
{
    while (range.first < range.end && strlen(path_of(list, range.first)) < range.begin)
        range.first++;
    return range;
}

static enum split split_of(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof(split_folders) / sizeof(split_folders[0]); i++) {
        if (strlen(split_folders[i].folder) == bytes && strncasecmp(split_folders[i].folder, name, bytes) == 0)
            return split_folders[i].split;
    }
    return SPLIT_COUNT;
}

/* Count the images of a range of files that lie beside the class folders instead of in one. */
static void note_strays(struct top *top, struct range range)
{
    for (size_t i = range.first; i < range.end; i++) {
        if (!is_in_folder(top->list, i, range.begin) && top->stray_count++ == 0)
            top->first_stray = path_of(top->list, i);
    }
}

/* Descend through single folders that contain folders, unless they are splits. */
static void unwrap(struct top *top)
{
    for (;;) {
        struct folders folders = folders_in(top->list, top->whole);
        if (!next_folder(&folders))
            return;
        const struct range only = folders.range;
        if (split_of(folders.name, folders.name_bytes) != SPLIT_COUNT || next_folder(&folders) ||
            !has_folders(top->list, only))
            return;
        note_strays(top, top->whole);
        top->whole = inside(top->list, only);
    }
}

static int layout_refuse(const struct top *top, const char *problem)
{
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s", top->input, problem);
}

static int layout_refuse_name(const struct top *top, const char *name, size_t bytes, const char *problem)
{
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: folder %.*s %s", top->input, (int)bytes, name,
                        problem);
}

static int find_top_folders(struct top *top)
{
    struct folders folders = folders_in(top->list, top->whole);

    while (next_folder(&folders)) {
        const enum split split = split_of(folders.name, folders.name_bytes);
        if (split == SPLIT_COUNT) {
            top->other_count++;
            continue;
        }
        if (top->splits[split].end > 0)
            return layout_refuse_name(top, folders.name, folders.name_bytes, "is a second folder for the same split");
        top->splits[split] = inside(top->list, folders.range);
        top->split_count++;
    }
    return top->split_count + top->other_count > 0 ? 0 : layout_refuse(top, "contains no folder with images");
}

/* Are the folders splits? They are if all have names of splits; "train" may also be a class among others. */
static int find_splits(const struct top *top, bool *are_splits_out)
{
    const struct range *train = &top->splits[SPLIT_TRAIN];
    const bool has_train = train->end > 0;

    *are_splits_out = has_train && top->other_count == 0;
    if (has_train && top->other_count > 0 && has_folders(top->list, *train))
        return layout_refuse(top,
                             "next to train there are folders that are neither validation nor test: move them away");
    if (!has_train && top->other_count == 0)
        return layout_refuse(top, "has validation or test images, but no training images: no folder train");
    return 0;
}

static int layout_no_memory(const struct top *top)
{
    return convert_fail(top->stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: no memory for class names", top->input);
}

static int add_class(const struct top *top, struct image_layout *layout, const struct folders *folder)
{
    char **names = realloc(layout->class_names, (layout->class_count + (size_t)1) * sizeof(*names));

    if (names == NULL)
        return layout_no_memory(top);
    layout->class_names = names;
    names[layout->class_count] = strndup(folder->name, folder->name_bytes);
    if (names[layout->class_count] == NULL)
        return layout_no_memory(top);
    layout->class_count++;
    return 0;
}

static int find_classes(const struct top *top, struct image_layout *layout, struct range range)
{
    struct folders folders = folders_in(top->list, range);

    while (next_folder(&folders)) {
        const int rc = add_class(top, layout, &folders);
        if (rc < 0)
            return rc;
    }
    if (layout->class_count > 1)
        return 0;
    return layout_refuse(top, layout->class_count == 0
                              ? "contains no folders of classes: put the images into one folder for each class"
                              : "contains only one class: give the folder that contains the classes");
}

static int compare_names(const void *name, const void *element)
{
    return strcmp(name, *(char *const *)element);
}

/* The class of a folder; -EBADMSG after stop_fail if the training set has no class of this name. */
static int label_of(const struct top *top, const struct image_layout *layout, const struct folders *folder,
                    uint32_t *label_out)
{
    char *name = strndup(folder->name, folder->name_bytes);

    if (name == NULL)
        return layout_no_memory(top);
    char **found = bsearch(name, layout->class_names, layout->class_count, sizeof(*found), compare_names);
    free(name);
    if (found == NULL)
        return layout_refuse_name(top, folder->name, folder->name_bytes,
                           "is not a class of the training set");
    *label_out = (uint32_t)(found - layout->class_names);
    return 0;
}

/* Move the images of a class to the end of the split, over dropped entries. Returns their number. */
static size_t move_images(struct top *top, struct image_split *split, const struct folders *folder, uint32_t label)
{
    const size_t before = split->count;

    for (size_t i = folder->range.first; i < folder->range.end; i++) {
        struct image_file file = top->list->files[i];
        if (file.is_folder)
            continue;
        file.label = label;
        file.name_at = (uint16_t)folder->range.begin;
        top->list->files[split->first + split->count++] = file;
    }
    return split->count - before;
}

/* Images directly in the folder of a split have no class. */
static void note_empty_split(const struct top *top, struct image_layout *layout, const char *name, struct range range)
{
    struct top flat = { .list = top->list };

    note_strays(&flat, range);
    if (flat.stray_count > 0)
        snprintf(layout->remark, sizeof(layout->remark),
                 "%s: %.*s contains %zu image%s and no class: no %s set is made: put %s into a folder for each class",
                 top->input, (int)range.begin - 1, flat.first_stray,
                 flat.stray_count, flat.stray_count == 1 ? "" : "s", name, flat.stray_count == 1 ? "it" : "them");
}

static int collect_split(struct top *top, struct image_layout *layout, const char *name, struct range range)
{
    struct image_split *split = &layout->splits[layout->split_count];
    const bool is_train = layout->split_count == 0;
    struct folders folders = folders_in(top->list, range);

    *split = (struct image_split){ .name = name, .first = range.first };
    note_strays(top, range);
    while (next_folder(&folders)) {
        uint32_t label = 0;
        const int rc = label_of(top, layout, &folders, &label);
        if (rc < 0)
            return rc;
        if (move_images(top, split, &folders, label) == 0 && is_train)
            return layout_refuse_name(top, folders.name, folders.name_bytes,
                                      "has no training image: fill or remove it");
    }
    if (split->count == 0)
        note_empty_split(top, layout, name, range);
    layout->split_count += split->count > 0;
    return 0;
}

static int collect_splits(struct top *top, struct image_layout *layout)
{
    const bool has_validation = top->splits[SPLIT_VALIDATION].end > 0;

    note_strays(top, top->whole);
    int rc = find_classes(top, layout, top->splits[SPLIT_TRAIN]);
    if (rc == 0)
        rc = collect_split(top, layout, "train", top->splits[SPLIT_TRAIN]);
    if (rc == 0 && has_validation)
        rc = collect_split(top, layout, "validation", top->splits[SPLIT_VALIDATION]);
    if (rc == 0 && top->splits[SPLIT_TEST].end > 0)
        rc = collect_split(top, layout, has_validation ? "test" : "validation", top->splits[SPLIT_TEST]);
    return rc;
}

static int collect_classes(struct top *top, struct image_layout *layout)
{
    const int rc = find_classes(top, layout, top->whole);
    return rc < 0 ? rc : collect_split(top, layout, "train", top->whole);
}

int image_set_find_layout(struct image_set *set)
{
    struct image_layout *const layout = &set->layout;
    struct top top = { .list = &set->list, .input = set->input, .stop = set->stop, .whole = { 0, set->list.count, 0 } };
    bool are_splits;

    image_list_sort(top.list);
    unwrap(&top);
    int rc = find_top_folders(&top);
    if (rc == 0)
        rc = find_splits(&top, &are_splits);
    if (rc == 0)
        rc = are_splits ? collect_splits(&top, layout) : collect_classes(&top, layout);
    if (rc == 0 && top.stray_count > 0)
        log_message(LOG_RUN, "%s: left out %zu image%s in no class folder, the first %s", top.input, top.stray_count,
                    top.stray_count == 1 ? "" : "s", top.first_stray);
    return rc;
}

/* ---- samples ---- */

#define FEATURES_BYTES 300u     /* approximate size of a record without its image */

static int refuse_image(const struct image_set *set, const struct image_file *file, int rc, const char *problem)
{
    return convert_fail(set->stop, EXIT_CODE_DATA, rc, "%s: %s: %s", set->input, image_list_path(&set->list, file),
                        problem);
}

/* Read an image and its header, which was valid when the set was prepared. */
static int read_image(const struct image_set *set, const struct image_file *file, uint8_t *bytes,
                      struct image_header *header_out)
{
    static const char changed[] = "changed during the conversion: convert it again";
    const char *problem;

    const int rc = set->read(set, file, bytes);
    if (rc < 0)
        return refuse_image(set, file, rc, rc == -EBADMSG ? changed : exit_cause(rc));
    if (image_header_read(bytes, file->bytes, header_out, &problem) < 0)
        return refuse_image(set, file, -EBADMSG, changed);
    return 0;
}

static struct example_value number_value(const char *name, int64_t value)
{
    return (struct example_value){ .name = name, .kind = FEATURE_INT64S, .int64 = value };
}

static struct example_value bytes_value(const char *name, const void *bytes, size_t byte_count)
{
    return (struct example_value){ .name = name, .kind = FEATURE_BYTES, .bytes = bytes, .byte_count = byte_count };
}

static struct example_value text_value(const char *name, const char *value)
{
    return bytes_value(name, value, strlen(value));
}

static int image_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                        size_t *count_out)
{
    static const char *const formats[] = { [IMAGE_FORMAT_JPEG] = "JPEG", [IMAGE_FORMAT_PNG] = "PNG" };
    const struct image_source *source = arg;
    const struct image_set *set = source->set;
    const struct image_file *file = &set->list.files[source->split->first + index];
    struct image_header header;
    size_t count = 0;

    const int rc = read_image(set, file, scratch, &header);
    if (rc < 0)
        return rc;
    values_out[count++] = number_value("image/channels", header.channels);
    values_out[count++] = number_value("image/class/label", file->label);
    if (set->layout.class_names != NULL)
        values_out[count++] = text_value("image/class/text", set->layout.class_names[file->label]);
    values_out[count++] = bytes_value("image/encoded", scratch, file->bytes);
    values_out[count++] = text_value("image/filename", image_list_path(&set->list, file) + file->name_at);
    values_out[count++] = text_value("image/format", formats[header.format]);
    values_out[count++] = number_value("image/height", header.height);
    values_out[count++] = number_value("image/width", header.width);
    *count_out = count;
    return 0;
}

static void image_name(void *arg, uint64_t index, char *text, size_t text_size)
{
    const struct image_source *const source = arg;
    const struct image_set *const set = source->set;

    snprintf(text, text_size, "%s: %s", set->input,
             image_list_path(&set->list, &set->list.files[source->split->first + index]));
}

static struct sample_source make_source(struct image_source *image_source)
{
    const struct image_split *split = image_source->split;
    struct sample_source source = {
        .split = split->name, .record_count = split->count, .sample = image_sample, .name = image_name,
        .arg = image_source,
    };

    for (size_t i = 0; i < split->count; i++) {
        const size_t bytes = image_source->set->list.files[split->first + i].bytes;
        source.bytes += bytes + FEATURES_BYTES;
        if (source.scratch_bytes <= bytes)
            source.scratch_bytes = bytes + 1;
    }
    return source;
}

int image_set_refuse(struct image_set *set, const char *path, int error)
{
    if (exit_code_of(-error, EXIT_CODE_DATA) == EXIT_CODE_DATA) {
        image_choice_refuse(&set->choice, path, strerror(error));
        return 0;
    }
    return convert_fail(set->stop, EXIT_CODE_MEMORY, -error, "%s: cannot look at its images: %s", set->input,
                        exit_cause(-error));
}

int image_set_read_file(const struct image_set *set, const struct image_file *file, int folder, uint8_t *out)
{
    const int fd = openat(folder, image_list_path(&set->list, file), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    const int rc = file_read_whole(fd, out, file->bytes);
    close(fd);
    return rc;
}

void image_set_describe(struct image_set *set, struct conversion *conversion)
{
    const struct image_layout *layout = &set->layout;

    conversion->image_key = "image/encoded";
    conversion->label_key = "image/class/label";
    conversion->classes = layout->class_count;
    conversion->class_names = (const char *const *)layout->class_names;
    conversion->remark = layout->remark;
    conversion->height = set->choice.common.height;
    conversion->width = set->choice.common.width;
    conversion->depth = set->choice.common.channels;
    for (size_t i = 0; i < layout->split_count; i++) {
        set->sources[i] = (struct image_source){ set, &layout->splits[i] };
        conversion->sources[i] = make_source(&set->sources[i]);
    }
    conversion->source_count = layout->split_count;
}

void image_set_release(struct image_set *set)
{
    image_list_release(&set->list);
    image_choice_release(&set->choice);
    for (uint32_t i = 0; set->layout.class_names != NULL && i < set->layout.class_count; i++)
        free(set->layout.class_names[i]);
    free(set->layout.class_names);
}
