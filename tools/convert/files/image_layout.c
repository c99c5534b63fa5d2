/* Splits and classes out of paths. Called by the main thread of the converters once all paths are known.
 * Everything is done on the sorted list: what is in one folder lies one behind the other, so a folder is a range. */
#include "tools/convert/files/image_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "stage/log.h"

enum split { SPLIT_TRAIN, SPLIT_VALIDATION, SPLIT_TEST, SPLIT_COUNT };

static const struct { const char *folder; enum split split; } split_folders[] = {
    { "train", SPLIT_TRAIN }, { "training", SPLIT_TRAIN },
    { "validation", SPLIT_VALIDATION }, { "valid", SPLIT_VALIDATION }, { "val", SPLIT_VALIDATION },
    { "dev", SPLIT_VALIDATION }, { "eval", SPLIT_VALIDATION },
    { "test", SPLIT_TEST }, { "testing", SPLIT_TEST },
};

/* A folder: entries first ... end - 1 of the list, whose paths are the same up to the folder's name and "/". */
struct range {
    size_t first, end;
    size_t begin;               /* the byte of the paths where the names begin of what is in it */
};

/* A walk over the folders in a folder. */
struct folders {
    const struct image_list *list;
    struct range in;
    size_t next;
    /* the folder found */
    struct range range;
    const char *name;
    size_t name_bytes;
};

/* What there is to be decided from the folders on top. */
struct top {
    struct image_list *list;
    const char *input;
    struct stop *stop;
    struct range whole;
    struct range splits[SPLIT_COUNT];
    size_t split_count, other_count;
    size_t stray_count;         /* images in no class, the first of them */
    const char *first_stray;
};

static const char *path_of(const struct image_list *list, size_t i)
{
    return image_list_path(list, &list->files[i]);
}

/* Does the entry lie in a folder of this range, or is it one? */
static bool is_in_folder(const struct image_list *list, size_t i, size_t begin)
{
    return list->files[i].is_folder || strchr(path_of(list, i) + begin, '/') != NULL;
}

/* The end of the entries that have the same part of the path from `begin`. */
static size_t same_part_end(const struct image_list *list, size_t first, size_t end, size_t begin, size_t bytes)
{
    const char *part = path_of(list, first) + begin;
    size_t i = first + 1;

    while (i < end && strncmp(path_of(list, i) + begin, part, bytes) == 0 &&
           strchr("/", path_of(list, i)[begin + bytes]) != NULL)
        i++;
    return i;
}

/* The next folder; images that lie beside are passed over. */
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
        i, same_part_end(folders->list, i, folders->in.end, folders->in.begin, folders->name_bytes),
        folders->in.begin + folders->name_bytes + 1,
    };
    folders->next = folders->range.end;
    return true;
}

static struct folders folders_in(const struct image_list *list, struct range range)
{
    return (struct folders){ .list = list, .in = range, .next = range.first };
}

/* The folder itself is the first entry of its range, shorter than what is in it. */
static bool has_folders(const struct image_list *list, struct range range)
{
    for (size_t i = range.first; i < range.end; i++) {
        const bool is_itself = strlen(path_of(list, i)) < range.begin;
        if (!is_itself && is_in_folder(list, i, range.begin))
            return true;
    }
    return false;
}

/* What is in a folder, without the entry of the folder itself. */
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

/* Images that lie beside the folders of a range, not in one. */
static void note_strays(struct top *top, struct range range)
{
    for (size_t i = range.first; i < range.end; i++) {
        if (!is_in_folder(top->list, i, range.begin) && top->stray_count++ == 0)
            top->first_stray = path_of(top->list, i);
    }
}

/* A single folder with folders in it is only a wrapping, unless it is a split. */
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

static int refuse(const struct top *top, const char *problem)
{
    stop_fail(top->stop, EXIT_CODE_DATA, "%s: %s", top->input, problem);
    return -EBADMSG;
}

static int refuse_name(const struct top *top, const char *name, size_t bytes, const char *problem)
{
    stop_fail(top->stop, EXIT_CODE_DATA, "%s: folder %.*s %s", top->input, (int)bytes, name, problem);
    return -EBADMSG;
}

static int look_at_top(struct top *top)
{
    struct folders folders = folders_in(top->list, top->whole);

    while (next_folder(&folders)) {
        const enum split split = split_of(folders.name, folders.name_bytes);
        if (split == SPLIT_COUNT) {
            top->other_count++;
            continue;
        }
        if (top->splits[split].end > 0)
            return refuse_name(top, folders.name, folders.name_bytes, "is a second one for the same part of the set");
        top->splits[split] = inside(top->list, folders.range);
        top->split_count++;
    }
    return top->split_count + top->other_count > 0 ? 0 : refuse(top, "no folder with images is there");
}

/* Are the folders splits? They are when all are called so; "train" may also be a class among others. */
static int find_splits(const struct top *top, bool *are_splits_out)
{
    const struct range *train = &top->splits[SPLIT_TRAIN];
    const bool has_train = train->end > 0;

    *are_splits_out = has_train && top->other_count == 0;
    if (has_train && top->other_count > 0 && has_folders(top->list, *train))
        return refuse(top, "beside train there are folders that are neither validation nor test: move them away");
    if (!has_train && top->other_count == 0)
        return refuse(top, "there are images to validate or test with, but none to train with: no folder train");
    return 0;
}

static int no_memory(const struct top *top)
{
    stop_fail(top->stop, EXIT_CODE_MEMORY, "%s: no memory for the names of its classes", top->input);
    return -ENOMEM;
}

static int add_class(const struct top *top, struct image_layout *layout, const struct folders *folder)
{
    char **names = realloc(layout->class_names, (layout->class_count + (size_t)1) * sizeof(*names));

    if (names == NULL)
        return no_memory(top);
    layout->class_names = names;
    names[layout->class_count] = strndup(folder->name, folder->name_bytes);
    if (names[layout->class_count] == NULL)
        return no_memory(top);
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
    return refuse(top, layout->class_count == 0 ? "no class has a folder: images lie in one folder for each class"
                                                : "there is only one class: give the folder that holds the classes");
}

static int compare_names(const void *name, const void *element)
{
    return strcmp(name, *(char *const *)element);
}

/* The class of a folder; -EBADMSG after stop_fail when training has none of this name. */
static int label_of(const struct top *top, const struct image_layout *layout, const struct folders *folder,
                    uint32_t *label_out)
{
    char *name = strndup(folder->name, folder->name_bytes);

    if (name == NULL)
        return no_memory(top);
    char **found = bsearch(name, layout->class_names, layout->class_count, sizeof(*found), compare_names);
    free(name);
    if (found == NULL)
        return refuse_name(top, folder->name, folder->name_bytes,
                           "is no class among the images to train with");
    *label_out = (uint32_t)(found - layout->class_names);
    return 0;
}

/* Move the images of a class to the end of the split, which grows over what was dropped. Their number. */
static size_t take_images(struct top *top, struct image_split *split, const struct folders *folder, uint32_t label)
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

/* Images that lie in the folder of the split itself have no class. */
static void remark_empty(const struct top *top, struct image_layout *layout, const char *name, struct range range)
{
    struct top flat = { .list = top->list };

    note_strays(&flat, range);
    if (flat.stray_count > 0)
        snprintf(layout->remark, sizeof(layout->remark), "%s: %.*s holds %zu image%s and no class: no %s set is made: "
                 "put %s into a folder for each class", top->input, (int)range.begin - 1, flat.first_stray,
                 flat.stray_count, flat.stray_count == 1 ? "" : "s", name, flat.stray_count == 1 ? "it" : "them");
}

static int take_split(struct top *top, struct image_layout *layout, const char *name, struct range range)
{
    struct image_split *split = &layout->splits[layout->split_count];
    const bool is_train = layout->split_count == 0;
    struct folders folders = folders_in(top->list, range);

    *split = (struct image_split){ .name = name, .first = range.first };
    note_strays(top, range);
    while (next_folder(&folders)) {
        uint32_t label;
        const int rc = label_of(top, layout, &folders, &label);
        if (rc < 0)
            return rc;
        if (take_images(top, split, &folders, label) == 0 && is_train)
            return refuse_name(top, folders.name, folders.name_bytes, "has no image to train with: fill or remove it");
    }
    if (split->count == 0)
        remark_empty(top, layout, name, range);
    layout->split_count += split->count > 0;
    return 0;
}

static int take_splits(struct top *top, struct image_layout *layout)
{
    const bool has_validation = top->splits[SPLIT_VALIDATION].end > 0;

    note_strays(top, top->whole);
    int rc = find_classes(top, layout, top->splits[SPLIT_TRAIN]);
    if (rc == 0)
        rc = take_split(top, layout, "train", top->splits[SPLIT_TRAIN]);
    if (rc == 0 && has_validation)
        rc = take_split(top, layout, "validation", top->splits[SPLIT_VALIDATION]);
    if (rc == 0 && top->splits[SPLIT_TEST].end > 0)
        rc = take_split(top, layout, has_validation ? "test" : "validation", top->splits[SPLIT_TEST]);
    return rc;
}

static int take_classes(struct top *top, struct image_layout *layout)
{
    const int rc = find_classes(top, layout, top->whole);
    return rc < 0 ? rc : take_split(top, layout, "train", top->whole);
}

int image_layout_find(struct image_layout *layout, struct image_list *list, const char *input, struct stop *stop)
{
    struct top top = { .list = list, .input = input, .stop = stop, .whole = { 0, list->count, 0 } };
    bool are_splits;

    image_list_sort(list);
    unwrap(&top);
    int rc = look_at_top(&top);
    if (rc == 0)
        rc = find_splits(&top, &are_splits);
    if (rc == 0)
        rc = are_splits ? take_splits(&top, layout) : take_classes(&top, layout);
    if (rc == 0 && top.stray_count > 0)
        log_message(LOG_RUN, "%s: left out %zu image%s in no folder of a class, the first %s", input, top.stray_count,
                    top.stray_count == 1 ? "" : "s", top.first_stray);
    return rc;
}

void image_layout_release(struct image_layout *layout)
{
    for (uint32_t i = 0; layout->class_names != NULL && i < layout->class_count; i++)
        free(layout->class_names[i]);
    free(layout->class_names);
    *layout = (struct image_layout){ 0 };
}
