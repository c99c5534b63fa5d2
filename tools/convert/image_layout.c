/* Finds the splits and classes of a set of encoded images from their paths. Called by the main thread of the
 * converter. All functions use the sorted list: the contents of a folder are consecutive in it, so a folder is a
 * range. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "formats/split_name.h"
#include "stage/log.h"
#include "stage/text/accents.h"
#include "stage/text/names.h"
#include "stage/text/shell_word.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_set.h"
#include "tools/convert/siblings.h"
#include "tools/convert/webdataset.h"

#define FOLDERS_ADVICE "; --folders-are-classes takes every folder for a class"

/* A folder as a range: the entries first ... end - 1 of the list, whose paths all begin with that of the folder and
 * "/". */
struct range {
    size_t first, end;
    size_t begin;               /* in these paths, the offset after the folder's path and "/" */
};

/* Iterates over the subfolders of a folder. */
struct folders {
    const struct image_list *list;
    struct range in;
    size_t next;
    /* the current subfolder */
    struct range range;
    const char *name;
    size_t name_bytes;
};

#define SPLIT_KINDS ((size_t)SPLIT_UNLABELLED + 1)

/* The data set, whose top level is the folder `whole`. */
struct top {
    struct image_list *list;
    const char *input;
    const struct image_choice *choice;
    bool folders_are_classes;   /* regardless of the names and contents of folders */
    const char *webdataset;     /* the command for samples of WebDataset */
    struct stop *stop;
    struct range whole;
    struct range splits[SPLIT_KINDS];
    size_t stray_count;         /* number of images outside of class folders, and the path of the first one */
    const char *first_stray;
};

static const char *path_of(const struct image_list *list, size_t i)
{
    return image_list_path(list, &list->files[i]);
}

/* Is the entry a subfolder of the folder whose range has this `begin`, or inside of one? */
static bool is_in_folder(const struct image_list *list, size_t i, size_t begin)
{
    return list->files[i].is_folder || strchr(path_of(list, i) + begin, '/') != NULL;
}

/* The end of the consecutive entries with the same path component at `begin`. */
static size_t same_component_end(const struct image_list *list, size_t first, size_t end, size_t begin, size_t bytes)
{
    const char *part = path_of(list, first) + begin;
    size_t i = first + 1;

    while (i < end && strncmp(path_of(list, i) + begin, part, bytes) == 0 &&
           strchr("/", path_of(list, i)[begin + bytes]) != NULL)
        i++;
    return i;
}

/* Go to the next subfolder, skipping images that are directly in the folder. */
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

/* Does the folder have subfolders? The first entry of its range may be the folder itself, whose path is shorter. */
static bool has_folders(const struct image_list *list, struct range range)
{
    for (size_t i = range.first; i < range.end; i++) {
        const bool is_itself = strlen(path_of(list, i)) < range.begin;
        if (!is_itself && is_in_folder(list, i, range.begin))
            return true;
    }
    return false;
}

/* The range of a folder without the entry of the folder itself. */
static struct range inside(const struct image_list *list, struct range range)
{
    while (range.first < range.end && strlen(path_of(list, range.first)) < range.begin)
        range.first++;
    return range;
}

static bool is_image_in(const struct image_list *list, size_t i, struct range range)
{
    return !list->files[i].is_folder && strlen(path_of(list, i)) > range.begin;
}

static size_t count_images(const struct image_list *list, struct range range)
{
    size_t count = 0;
    for (size_t i = range.first; i < range.end; i++)
        count += is_image_in(list, i, range);
    return count;
}

/* Does the folder have subfolders with images? */
static bool has_folders_of_images(const struct image_list *list, struct range range)
{
    for (size_t i = range.first; i < range.end; i++)
        if (is_image_in(list, i, range) && strchr(path_of(list, i) + range.begin, '/') != NULL)
            return true;
    return false;
}

static struct split_name name_of(const struct folders *folder)
{
    return split_name_read(folder->name, folder->name_bytes);
}

static bool is_one_of(const struct folders *folder, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(words[i]) == folder->name_bytes && strncasecmp(words[i], folder->name, folder->name_bytes) == 0)
            return true;
    return false;
}

/* Does the name of the folder only mean that it contains images? */
static bool is_called_images(const struct folders *folder)
{
    static const char *const words[] = { "images", "image", "imgs", "img", "jpegimages", "photos", "original",
                                         "originals" };
    return is_one_of(folder, words, sizeof(words) / sizeof(words[0]));
}

/* Count the images that are directly in this folder, beside the class folders. */
static void note_strays(struct top *top, struct range range)
{
    for (size_t i = range.first; i < range.end; i++) {
        if (!is_in_folder(top->list, i, range.begin) && top->stray_count++ == 0)
            top->first_stray = path_of(top->list, i);
    }
}

/* Report that images will be used for training although their folder is called validation or test. */
static void report_other_split(const struct top *top, const struct folders *folder)
{
    const struct split_name name = name_of(folder);
    if (name.split == SPLIT_VALIDATION || name.split == SPLIT_TEST)
        log_message(LOG_RUN, "%s: folder %.*s is called %s: its images are for training", top->input,
                    (int)folder->name_bytes, folder->name, split_text(name.split));
}

/* Find the only subfolder of the top level; or the only one with images, if it is called "images" and the others,
 * such as one of notes, contain none. */
static bool find_only_folder(const struct top *top, struct folders *only_out)
{
    struct folders folders = folders_in(top->list, top->whole);
    size_t count = 0, filled = 0;

    *only_out = folders;
    while (next_folder(&folders)) {
        const bool is_filled = count_images(top->list, folders.range) > 0;
        filled += is_filled;
        if (count++ == 0 || is_filled)
            *only_out = folders;
    }
    if (count <= 1)
        return count == 1;
    if (filled != 1 || !is_called_images(only_out) || !has_folders_of_images(top->list, only_out->range))
        return false;
    log_message(LOG_RUN, "%s: the set is in %.*s: the folders beside it contain no images", top->input,
                (int)(only_out->range.begin - 1), path_of(top->list, only_out->range.first));
    return true;
}

/* As long as the top level has a single subfolder, which itself has subfolders and is not a split, make that the top
 * level. */
static void unwrap(struct top *top)
{
    struct folders only;

    while (find_only_folder(top, &only)) {
        const bool is_split = name_of(&only).is_whole && !top->folders_are_classes;
        if (is_split || !has_folders(top->list, only.range))
            return;
        report_other_split(top, &only);
        note_strays(top, top->whole);
        top->whole = inside(top->list, only.range);
    }
}

static int layout_refuse(const struct top *top, const char *problem)
{
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s", top->input, problem);
}

static int layout_refuse_name(const struct top *top, const char *name, size_t bytes, const char *problem)
{
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: folder '%.*s' %s", top->input, (int)bytes, name,
                        problem);
}

/* List the subfolders of a range as siblings. 0 or -ENOMEM after stop_fail; the caller frees them. */
static int list_siblings(const struct top *top, struct range range, struct sibling **siblings_out, size_t *count_out)
{
    struct folders folders = folders_in(top->list, range);
    struct sibling *siblings = NULL;
    size_t count = 0;

    while (next_folder(&folders)) {
        struct sibling *const more = realloc(siblings, (count + 1) * sizeof(*siblings));
        if (more == NULL) {
            free(siblings);
            return convert_fail(top->stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: no memory for its folders", top->input);
        }
        siblings = more;
        siblings[count++] = (struct sibling){ folders.name, folders.name_bytes,
                                              count_images(top->list, folders.range) > 0,
                                              has_folders_of_images(top->list, folders.range) };
    }
    *siblings_out = siblings;
    *count_out = count;
    return 0;
}

static int layout_refuse_siblings(const struct top *top, const struct sibling *siblings,
                                  const struct siblings_reading *reading)
{
    const struct sibling *const named = &siblings[reading->named], *const other = &siblings[reading->other];

    if (reading->meaning == SIBLINGS_NO_TRAIN)
        return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: has validation or test images (%.*s), but no "
                            "training images: no folder train" FOLDERS_ADVICE, top->input, (int)named->bytes,
                            named->name);
    if (reading->meaning == SIBLINGS_STRANGER)
        return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: next to %.*s, a split by its name, there is "
                            "%.*s, which is neither for training, validation nor test: move one of them away"
                            FOLDERS_ADVICE, top->input, (int)named->bytes, named->name, (int)other->bytes, other->name);
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: folders %.*s and %.*s may be splits or classes: call "
                        "splits train, validation and test" FOLDERS_ADVICE, top->input, (int)named->bytes, named->name,
                        (int)other->bytes, other->name);
}

/* Report the images of a folder that is beside splits, but belongs to none. */
static void report_aside(const struct top *top, const struct folders *folder)
{
    const size_t count = count_images(top->list, folder->range);
    if (count > 0)
        log_message(LOG_RUN, "%s: left out %zu image%s of %.*s, which is no split by its name and has no folders of "
                    "classes", top->input, count, count == 1 ? "" : "s", (int)folder->name_bytes, folder->name);
}

/* Find the folder of each split. Folders without images are ignored. */
static int find_splits(struct top *top)
{
    struct folders folders = folders_in(top->list, top->whole);

    while (next_folder(&folders)) {
        const enum split split = name_of(&folders).split;
        if (split == SPLIT_UNSAID)
            report_aside(top, &folders);
        if (split == SPLIT_UNSAID || count_images(top->list, folders.range) == 0)
            continue;
        if (top->splits[split].end > 0)
            return layout_refuse_name(top, folders.name, folders.name_bytes, "is a second folder for the same split: "
                                      "put both into one, or remove it if it is a copy" FOLDERS_ADVICE);
        top->splits[split] = inside(top->list, folders.range);
    }
    return 0;
}

/* Refuse a folder that contains only archives: shards of WebDataset, or one archive for each class as ImageNet has. */
static int refuse_archives(const struct top *top)
{
    char problem[400], path[4096], quoted[4096];

    const char *const end = strrchr(top->choice->archive, '.');

    if (end != NULL && strcmp(end, ".parquet") == 0)
        return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: contains Parquet files, such as %s: write the "
                            "images in them as a tar archive, with python3 examples/parquet_to_tar.py FILE... -o "
                            "train.tar, and convert that with 'webdataset'", top->input, top->choice->archive);
    snprintf(path, sizeof(path), "%s/%s", top->input, top->choice->archive);
    if (webdataset_begins(path, NULL)) {
        *strrchr(path, '/') = '\0';
        return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: contains shards of WebDataset, such as %s: "
                            CONVERT_PROGRAM " webdataset %s", top->input, top->choice->archive,
                            shell_word(path, quoted, sizeof(quoted)));
    }

    snprintf(problem, sizeof(problem), "contains no folder with images: unpack the archives in it, such as %s; if each "
             "is of one class, into a folder of its name", top->choice->archive);
    return layout_refuse(top, problem);
}

/* Decide whether the folders at the top level are splits or classes. */
static int read_top(struct top *top, bool *are_splits_out)
{
    struct sibling *siblings;
    size_t count;

    int rc = list_siblings(top, top->whole, &siblings, &count);
    if (rc < 0)
        return rc;
    const struct siblings_reading reading = siblings_read(siblings, count);
    *are_splits_out = reading.meaning == SIBLINGS_SPLITS && !top->folders_are_classes;
    if (top->choice->image_count == 0 && top->choice->archive[0] != '\0')
        rc = refuse_archives(top);
    else if (count == 0 && (top->choice->label_file_count > 0 || top->list->count == 0))
        rc = top->choice->label_file_count == 0
           ? layout_refuse(top, "contains no folder with images")
           : convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: contains no folder with images; its .cls or .label "
                          "files are labels of samples of WebDataset: %s", top->input, top->webdataset);
    else if (reading.meaning > SIBLINGS_SPLITS && !top->folders_are_classes)
        rc = layout_refuse_siblings(top, siblings, &reading);
    free(siblings);
    return rc < 0 || !*are_splits_out ? rc : find_splits(top);
}

/* Refuse a training set whose folders are splits again, for example from an archive called train. */
static int check_nested(const struct top *top, struct range range)
{
    struct sibling *siblings;
    size_t count;

    const int rc = list_siblings(top, range, &siblings, &count);
    if (rc < 0)
        return rc;
    const struct siblings_reading reading = siblings_read(siblings, count);
    const bool has_several = __builtin_popcount(reading.splits) > 1;
    const struct sibling first = count > 0 ? siblings[0] : (struct sibling){ 0 };
    free(siblings);
    if (reading.meaning != SIBLINGS_SPLITS || !has_several)
        return 0;
    return layout_refuse_name(top, first.name, first.bytes, "is a split inside the training set: give the folder or "
                              "the archive that holds all splits");
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

/* List the tables in the folder, that of the training set first, as arguments for a shell command: " 'my
 * set/train/metadata.csv'". */
static const char *list_tables(const struct top *top, char *text, size_t text_size)
{
    size_t length = 0;

    text[0] = '\0';
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < IMAGE_CHOICE_TABLES && top->choice->tables[i][0] != '\0'; i++) {
            const char *const table = top->choice->tables[i];
            char path[4096], quoted[4096];
            snprintf(path, sizeof(path), "%s/%s", top->input, table);
            if ((strstr(table, "train") != NULL) == (pass == 0) && access(path, F_OK) == 0 && length < text_size)
                length += (size_t)snprintf(text + length, text_size - length, " %s",
                                           shell_word(path, quoted, sizeof(quoted)));
        }
    }
    return text;
}

/* Has nearly every image a file beside it that may hold its label, as in WebDataset? */
static bool has_notes(const struct image_choice *choice)
{
    const uint64_t most = choice->image_count - choice->image_count / 10;
    return choice->image_count > 0 && (choice->label_file_count >= most || choice->note_file_count >= most);
}

static int find_classes(const struct top *top, struct image_layout *layout, struct range range)
{
    const bool may_be_samples = has_notes(top->choice);
    char tables[4096];
    struct folders folders = folders_in(top->list, range);

    while (next_folder(&folders)) {
        const int rc = add_class(top, layout, &folders);
        if (rc < 0)
            return rc;
    }
    if (layout->class_count > 1)
        return 0;
    if (layout->class_count == 1)
        return layout_refuse(top, "contains only one class: give the folder that contains the classes");
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %.*s%scontains %zu images and no folders of classes: "
                        "%s%s%sput the images into one folder for each class, or list them with their classes in a "
                        "table (" CONVERT_PROGRAM " csv%s)", top->input, (int)(range.begin > 0 ? range.begin - 1 : 0),
                        path_of(top->list, range.first), range.begin > 0 ? " " : "", count_images(top->list, range),
                        may_be_samples ? "the .json, .txt or .cls beside each may hold its class, as in WebDataset: "
                                       : "", may_be_samples ? top->webdataset : "", may_be_samples ? "; or " : "",
                        list_tables(top, tables, sizeof(tables)));
}

static int compare_folder(const void *folder, const void *element)
{
    const struct folders *const wanted = folder;
    const char *const name = *(char *const *)element;
    const int order = strncmp(wanted->name, name, wanted->name_bytes);
    return order != 0 ? order : -(name[wanted->name_bytes] != '\0');
}

/* The training class with the name of the folder; NULL if there is none. */
static char **find_class(const struct image_layout *layout, const struct folders *folder)
{
    return layout->class_count == 0 ? NULL
                                    : bsearch(folder, layout->class_names, layout->class_count, sizeof(char *),
                                              compare_folder);
}

/* ---- names that look the same ---- */

#define CHARACTERS_MAX IMAGE_FOLDER_PATH_BYTES  /* characters of a name, with its end */

static bool is_blank(uint32_t character)
{
    return character == ' ' || (character >= '\t' && character <= '\r') || character == 0xa0 || character == 0x3000 ||
           character == 0xfeff || (character >= 0x2000 && character <= 0x200b);
}

/* The appearance of a name: without differences in case, blanks or the encoding of accents. */
static void read_look(const char *name, uint32_t look[CHARACTERS_MAX])
{
    size_t count = 0;

    accents_compose(name, look);
    for (size_t i = 0; look[i] != 0; i++) {
        const uint32_t character = is_blank(look[i]) ? ' ' : look[i];
        if (character != ' ' || (count > 0 && look[count - 1] != ' '))
            look[count++] = character >= 'A' && character <= 'Z' ? character - 'A' + 'a' : character;
    }
    look[count - (count > 0 && look[count - 1] == ' ')] = 0;
}

static int compare_looks(const void *a, const void *b)
{
    uint32_t one[CHARACTERS_MAX], other[CHARACTERS_MAX];
    size_t i = 0;

    read_look(*(char *const *)a, one);
    read_look(*(char *const *)b, other);
    while (one[i] == other[i] && one[i] != 0)
        i++;
    return (one[i] > other[i]) - (one[i] < other[i]);
}

/* Do two names look the same, apart from case? False if they differ in nothing but case. */
static bool looks_same(const char *one, const char *other)
{
    return strcasecmp(one, other) != 0 && compare_looks(&one, &other) == 0;
}

/* Compare adjacent names; `names` is sorted by appearance. */
static int check_sorted_names(const struct top *top, char *const *names, uint32_t count)
{
    const char *one = NULL, *other = NULL;
    size_t pairs = 0;

    for (uint32_t i = 1; i < count; i++) {
        if (compare_looks(&names[i - 1], &names[i]) != 0)
            continue;
        if (looks_same(names[i - 1], names[i]))
            return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: the folders '%s' and '%s' look the same: "
                                "they differ in blanks or in how accents are encoded (NFC or NFD of Unicode): put "
                                "their images into one folder", top->input, names[i - 1], names[i]);
        if (pairs++ == 0) {
            one = names[i - 1];
            other = names[i];
        }
    }
    if (pairs > 0)
        log_message(LOG_RUN, "%s: %zu class%s from another only in capitals, such as '%s' and '%s': are they one "
                    "class?", top->input, pairs, pairs == 1 ? " differs" : "es differ", one, other);
    return 0;
}

static int check_names(const struct top *top, const struct image_layout *layout)
{
    char **const names = calloc(layout->class_count + (size_t)1, sizeof(*names));

    if (names == NULL)
        return layout_no_memory(top);
    memcpy(names, layout->class_names, layout->class_count * sizeof(*names));
    qsort(names, layout->class_count, sizeof(*names), compare_looks);
    const int rc = check_sorted_names(top, names, layout->class_count);
    free(names);
    return rc;
}

/* ---- a class that is not in the training set ---- */

#define CLASSES_LISTED 10u

/* List the classes for a message: "; its classes are cat, dog". */
static void list_classes(const struct image_layout *layout, char *text, size_t text_size)
{
    size_t length = (size_t)snprintf(text, text_size, "; its classes are");

    for (uint32_t i = 0; i < layout->class_count && i < CLASSES_LISTED && length < text_size; i++)
        length += (size_t)snprintf(text + length, text_size - length, "%s '%s'", i > 0 ? "," : "",
                                   layout->class_names[i]);
    if (layout->class_count > CLASSES_LISTED && length < text_size)
        snprintf(text + length, text_size - length, " and %" PRIu32 " more", layout->class_count - CLASSES_LISTED);
}

static int refuse_class(const struct top *top, const struct image_layout *layout, const struct folders *folder)
{
    char *const name = strndup(folder->name, folder->name_bytes);
    struct nearest nearest = { .name = name };
    const char *same = NULL;
    char classes[1024], problem[2048];

    if (name == NULL)
        return layout_no_memory(top);
    for (uint32_t i = 0; i < layout->class_count; i++) {
        const char *const class = layout->class_names[i];
        same = looks_same(class, name) ? class : same;
        nearest_offer(&nearest, class, class);
    }
    list_classes(layout, classes, sizeof(classes));
    if (same != NULL)
        snprintf(problem, sizeof(problem), "is not a class of the training set: '%s' there looks the same, but differs "
                 "in blanks or in how accents are encoded (NFC or NFD of Unicode, as macOS and Linux write them): give "
                 "both one name%s", same, classes);
    else if (nearest.best != NULL)
        snprintf(problem, sizeof(problem), "is not a class of the training set (did you mean '%s'?)%s",
                 (const char *)nearest.best, classes);
    else
        snprintf(problem, sizeof(problem), "is not a class of the training set%s", classes);
    free(name);
    return layout_refuse_name(top, folder->name, folder->name_bytes, problem);
}

/* The class of a folder; -EBADMSG after stop_fail if the training set has no class of this name. */
static int label_of(const struct top *top, const struct image_layout *layout, const struct folders *folder,
                    uint32_t *label_out)
{
    char **const found = find_class(layout, folder);

    if (found == NULL)
        return refuse_class(top, layout, folder);
    *label_out = (uint32_t)(found - layout->class_names);
    return 0;
}

/* Is a path inside a class in a folder of validation or test images, as in CLASS/val/IMAGE? */
static bool is_in_other_split(const char *inside_class, struct split_name *name_out)
{
    for (const char *end = strchr(inside_class, '/'); end != NULL; end = strchr(inside_class, '/')) {
        *name_out = split_name_read(inside_class, (size_t)(end - inside_class));
        if (name_out->is_whole && (name_out->split == SPLIT_VALIDATION || name_out->split == SPLIT_TEST))
            return true;
        inside_class = end + 1;
    }
    return false;
}

/* Refuse validation images inside the classes of the training set. */
static int check_reversed(const struct top *top, const struct folders *folder)
{
    struct split_name name;

    for (size_t i = folder->range.first; i < folder->range.end && !top->folders_are_classes; i++) {
        const char *const path = path_of(top->list, i);
        if (is_image_in(top->list, i, folder->range) && is_in_other_split(path + folder->range.begin, &name))
            return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s is in a folder for %s inside its class: "
                                "put the splits outside, as train/CLASS and %s/CLASS; --folders-are-classes takes all "
                                "images of a class for training", top->input, path, split_text(name.split),
                                split_text(name.split));
    }
    return 0;
}

/* Move the images of a class to the end of the split in the list, where folder entries were dropped. */
static void move_images(struct top *top, struct image_split *split, const struct folders *folder, uint32_t label)
{
    for (size_t i = folder->range.first; i < folder->range.end; i++) {
        struct image_file file = top->list->files[i];
        if (file.is_folder)
            continue;
        file.label = label;
        file.name_at = (uint16_t)folder->range.begin;
        top->list->files[split->first + split->count++] = file;
    }
}

/* If images are directly in the folder of a split, add a remark that they have no class. */
static void note_empty_split(const struct top *top, struct image_layout *layout, const char *name, struct range range)
{
    struct top flat = { .list = top->list };

    note_strays(&flat, range);
    const size_t length = strlen(layout->remark);
    if (flat.stray_count > 0)
        snprintf(layout->remark + length, sizeof(layout->remark) - length,
                 "%s%s: %.*s contains %zu image%s and no class: no %s set is made: put %s into a folder for each class",
                 length > 0 ? "; " : "", top->input, (int)range.begin - 1, flat.first_stray,
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
        int rc = label_of(top, layout, &folders, &label);
        if (rc == 0 && is_train)
            rc = check_reversed(top, &folders);
        if (rc < 0)
            return rc;
        move_images(top, split, &folders, label);
    }
    if (split->count == 0)
        note_empty_split(top, layout, name, range);
    layout->split_count += split->count > 0;
    return 0;
}

/* ---- folders that are not classes ---- */

#define RECORD_FOLDERS_LEAST 3u     /* fewer folders with one image each may be classes */
#define DOUBTFUL_CLASSES 20u        /* so many classes with one image each are reported, whatever their names */
#define PADDED_DIGITS_LEAST 3u      /* fewer digits are not regarded as the name of a shard */

/* Common properties of the names of all classes and their images. */
struct class_habits {
    bool have_one_image;        /* every class has exactly one image */
    bool are_numbered;          /* the names differ only in numbers, or are hexadecimal identifiers */
    bool are_padded;            /* the names are numbers with leading zeros, all of the same length */
    bool are_parts;             /* the names are those of parts: part1, part2; shard-00000; fold_3 */
    bool are_running;           /* the numbers of the images in each class continue those of the preceding class */
};

static size_t digits_of(const char *text)
{
    return strspn(text, "0123456789");
}

static bool is_identifier(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes >= 8 && strspn(name, "0123456789abcdefABCDEF-") == bytes && strpbrk(name, "0123456789") != NULL;
}

/* Does the name consist of a word for a part of a data set, or for a source of many images (such as a patient), and
 * a number? */
static bool is_part(const char *name)
{
    static const char *const words[] = {
        "part", "shard", "fold", "chunk", "batch", "block", "images", "image", "imgs", "img", "subset", "patient",
        "patients", "case", "study", "scan", "slide", "session", "archive",
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t bytes = strlen(words[i]);
        if (strncasecmp(name, words[i], bytes) != 0)
            continue;
        const char *const number = name + bytes + strspn(name + bytes, "-_ .");
        if (*number != '\0' && number[digits_of(number)] == '\0')
            return true;
    }
    return false;
}

/* Parse the number that is the name of an image, such as 00012.jpg; false if it has another name. */
static bool read_number(const char *path, uint64_t *number_out)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    const size_t digits = digits_of(name);
    *number_out = digits > 0 && digits < 19 ? strtoull(name, NULL, 10) : 0;
    return digits > 0 && digits < 19 && name[digits] == '.';
}

/* Are all images numbered, continuing from class to class? The split is sorted by class. */
static bool are_running(const struct image_list *list, const struct image_split *split)
{
    uint64_t before = 0, most = 0;
    for (size_t i = 0; i < split->count; i++) {
        const struct image_file *const file = &list->files[split->first + i];
        uint64_t number;
        if (!read_number(image_list_path(list, file), &number))
            return false;
        if (i > 0 && file->label != file[-1].label)
            before = most;
        if (file->label > 0 && number <= before)
            return false;
        most = number > most ? number : most;
    }
    return true;
}

static bool have_one_image(const struct image_list *list, const struct image_split *split)
{
    for (size_t i = 1; i < split->count; i++)
        if (list->files[split->first + i].label == list->files[split->first + i - 1].label)
            return false;
    return true;
}

static struct class_habits look_at_classes(const struct image_list *list, const struct image_layout *layout)
{
    char *const *const names = layout->class_names;
    const size_t width = strlen(names[0]);
    struct class_habits habits = { .are_numbered = true, .are_parts = true,
                                   .are_padded = width >= PADDED_DIGITS_LEAST && names[0][0] == '0' };
    for (uint32_t i = 0; i < layout->class_count; i++) {
        habits.are_numbered &= is_identifier(names[i]) ||
                              names_differ_in_numbers(names[0], strlen(names[0]), names[i], strlen(names[i]));
        habits.are_padded &= strlen(names[i]) == width && digits_of(names[i]) == width;
        habits.are_parts &= is_part(names[i]);
    }
    habits.have_one_image = have_one_image(list, &layout->splits[0]);
    habits.are_running = are_running(list, &layout->splits[0]);
    return habits;
}

/* Why the folders are not classes; NULL if they may be. */
static const char *no_classes_text(const struct class_habits *habits, const struct top *top, uint32_t classes)
{
    const struct image_choice *const choice = top->choice;
    const uint64_t most = choice->image_count - choice->image_count / 10;

    if (choice->label_file_count >= most)
        return "labels of the images are in files beside them (.cls, .label), as in WebDataset";
    if (habits->are_padded && choice->note_file_count >= most)
        return "numbers, with a file (.json, .txt) beside each image, as shards of WebDataset";
    if (habits->are_padded && habits->are_running)
        return "numbers, and their images are numbered on from folder to folder, as in shards";
    if (habits->are_parts)
        return "parts of a set by their names";
    if (habits->have_one_image && habits->are_numbered && classes >= RECORD_FOLDERS_LEAST)
        return "numbered, with one image each, as records are";
    return NULL;
}

/* The folder that contains the classes of a sibling: the sibling itself, or the innermost of single folders in it,
 * as in Art/images/CLASS. */
static struct range unwrap_sibling(const struct image_list *list, struct range range)
{
    for (;;) {
        struct folders folders = folders_in(list, range);
        if (!next_folder(&folders))
            return range;
        const struct folders only = folders;
        if (next_folder(&folders) || !has_folders_of_images(list, only.range))
            return range;
        range = inside(list, only.range);
    }
}

/* List the subfolders with images of all folders in a range, and count the folders that have such subfolders. 0 or
 * -ENOMEM after stop_fail; the caller frees the list. */
static int list_held(const struct top *top, struct range range, struct held **list_out, size_t *count_out,
                     size_t *holders_out)
{
    struct folders outer = folders_in(top->list, range);
    size_t room = 0, count = 0;

    *list_out = NULL;
    for (size_t i = range.first; i < range.end; i++)
        room += is_in_folder(top->list, i, range.begin);
    struct held *const list = calloc(room + 1, sizeof(*list));
    if (list == NULL)
        return layout_no_memory(top);
    for (*holders_out = 0; next_folder(&outer);) {
        struct folders inner = folders_in(top->list, unwrap_sibling(top->list, inside(top->list, outer.range)));
        const size_t before = count;
        while (next_folder(&inner))
            if (count_images(top->list, inner.range) > 0)
                list[count++] = (struct held){ inner.name, inner.name_bytes };
        *holders_out += count > before;
    }
    *list_out = list;
    *count_out = count;
    return 0;
}

/* Refuse folders that contain subfolders of the same names: probably those are the classes, and the folders are
 * splits in another language, patients, styles, ... */
static int check_held(const struct top *top, const struct image_layout *layout, struct range range)
{
    struct held *list, first, second;
    size_t count = 0, holders = 0;

    const int rc = list_held(top, range, &list, &count, &holders);
    if (rc < 0)
        return rc;
    const bool is_same = holders > 1 && 2 * holders > layout->class_count &&
                         siblings_hold_the_same(list, count, holders, &first, &second);
    free(list);
    if (!is_same)
        return 0;
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: the folders %s, %s, ... hold the same folders %.*s, "
                        "%.*s, ..., which look like the classes: call splits train, validation and test, as in "
                        "train/%.*s; merge other groups into one folder for each class; --folders-are-classes takes "
                        "%s, %s, ... for the classes", top->input, layout->class_names[0], layout->class_names[1],
                        (int)first.bytes, first.name, (int)second.bytes, second.name, (int)first.bytes, first.name,
                        layout->class_names[0], layout->class_names[1]);
}

/* Find a folder, at any depth of the range, in which at least two subfolders have the names of classes. */
static bool find_copy(const struct image_list *list, const struct image_layout *layout, struct range range,
                      struct folders *copy_out)
{
    struct folders outer = folders_in(list, range);

    while (next_folder(&outer)) {
        const struct range held = inside(list, outer.range);
        struct folders inner = folders_in(list, held);
        size_t same = 0;
        while (same < 2 && next_folder(&inner))
            same += find_class(layout, &inner) != NULL && count_images(list, inner.range) > 0;
        if (same > 1)
            *copy_out = outer;
        if (same > 1 || find_copy(list, layout, held, copy_out))
            return true;
    }
    return false;
}

/* Refuse a copy of the data set inside itself, which results when an archive is unpacked into the folder that it
 * contains. */
static int check_copy(const struct top *top, const struct image_layout *layout, struct range range)
{
    struct folders copy;

    if (!find_copy(top->list, layout, range, &copy))
        return 0;
    return layout_refuse_name(top, path_of(top->list, copy.range.first), copy.range.begin - 1,
                              "contains folders called like the classes: remove it if it is a copy of the set inside "
                              "itself, or else move its images to their classes" FOLDERS_ADVICE);
}

/* ---- classes that consist of folders ---- */

/* How the images of class folders are divided into subfolders. */
struct grouping {
    size_t group_count;         /* number of classes with several subfolders, and no images outside of these */
    struct folders group, one, other;   /* the first such class, and its first two subfolders */
    /* number of classes with a subfolder of their own name and other images; `again` is the first such subfolder */
    size_t again_count;
    struct folders again;
    bool are_initials;          /* each class folder has the initial of its subfolders as its name: b/beach, b/bar */
};

static bool is_letter(char byte)
{
    return ((unsigned char)byte | 0x20) >= 'a' && ((unsigned char)byte | 0x20) <= 'z';
}

/* Is the name of the folder a word with this initial? "A1" and "a_left" are not words, but may be parts of a class
 * "a". */
static bool begins_with(const struct folders *folder, const struct folders *initial)
{
    return initial->name_bytes == 1 && is_letter(initial->name[0]) && folder->name_bytes > 1 &&
           strncasecmp(folder->name, initial->name, 1) == 0 && is_letter(folder->name[1]);
}

/* Count a subfolder with the name of its class, which may be a copy. */
static void note_again(struct grouping *grouping, const struct folders *group, const struct folders *folder)
{
    if (folder->name_bytes == group->name_bytes && memcmp(folder->name, group->name, group->name_bytes) == 0 &&
        grouping->again_count++ == 0)
        grouping->again = *folder;
}

static void note_group(struct grouping *grouping, const struct image_list *list, const struct folders *group)
{
    const struct range held = inside(list, group->range);
    struct folders folders = folders_in(list, held), found[2];
    const size_t total = count_images(list, held);
    size_t count = 0, images = 0;

    while (next_folder(&folders)) {
        const size_t inner = count_images(list, folders.range);
        if (inner == 0)
            continue;
        images += inner;
        if (inner < total)
            note_again(grouping, group, &folders);
        grouping->are_initials &= begins_with(&folders, group);
        if (count < 2)
            found[count] = folders;
        count++;
    }
    const bool is_divided = images == total;
    grouping->are_initials &= is_divided && count > 0;
    if (!is_divided || count < 2 || grouping->group_count++ > 0)
        return;
    grouping->group = *group;
    grouping->one = found[0];
    grouping->other = found[1];
}

/* Refuse folders that are initials of the classes in them, as in Places365 (a/airfield, a/alley, b/bakery). Report
 * other classes that consist of subfolders: these may be the classes, as species are in a folder for each genus. */
static int check_groups(const struct top *top, const struct image_layout *layout, struct range range)
{
    struct folders folders = folders_in(top->list, range);
    struct grouping grouping = { .are_initials = true };

    while (next_folder(&folders))
        note_group(&grouping, top->list, &folders);
    if (grouping.again_count > 0)
        log_message(LOG_RUN, "%s: %zu class%s a folder of the same name beside other images, such as %.*s: remove it "
                    "if it is a copy", top->input, grouping.again_count,
                    grouping.again_count == 1 ? " contains" : "es contain", (int)(grouping.again.range.begin - 1),
                    path_of(top->list, grouping.again.range.first));
    if (grouping.group_count == 0)
        return 0;
    char example[1024];
    snprintf(example, sizeof(example), "%.*s of %.*s and %.*s", (int)grouping.group.name_bytes, grouping.group.name,
             (int)grouping.one.name_bytes, grouping.one.name, (int)grouping.other.name_bytes, grouping.other.name);
    if (grouping.are_initials)
        return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: the folders are initials of the classes in them, "
                            "such as %s: move the latter into one folder" FOLDERS_ADVICE, top->input, example);
    log_message(LOG_RUN, "%s: %zu of %" PRIu32 " classes consist%s of folders, such as %s: if these are the classes, "
                "move them into one folder", top->input, grouping.group_count, layout->class_count,
                grouping.group_count == 1 ? "s" : "", example);
    return 0;
}

/* Refuse class folders without images. If only one folder has images, the others may contain notes, and its
 * subfolders may be the classes. */
static int check_filled(const struct top *top, const struct image_layout *layout, struct range range)
{
    struct folders folders = folders_in(top->list, range), empty = folders, filled = folders;
    size_t filled_count = 0;

    while (next_folder(&folders)) {
        const bool is_filled = count_images(top->list, folders.range) > 0;
        if (is_filled || empty.name == NULL)
            *(is_filled ? &filled : &empty) = folders;
        filled_count += is_filled;
    }
    if (filled_count == layout->class_count)
        return 0;
    const bool may_hold_classes = filled_count == 1 && has_folders_of_images(top->list, filled.range);
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: folder '%.*s' has no training image: fill or remove "
                        "it%s%.*s%s", top->input, (int)empty.name_bytes, empty.name,
                        may_hold_classes ? ", or convert only " : "",
                        may_hold_classes ? (int)(filled.range.begin - 1) : 0, path_of(top->list, filled.range.first),
                        may_hold_classes ? " if its folders are the classes" : "");
}

/* ---- annotations beside images ---- */

/* Are there, side by side, a folder of images and a folder of masks or annotations? A folder "mask" alone may be a
 * class. */
static bool has_annotations(const struct image_list *list, struct range range, struct folders *images_out,
                            struct folders *drawn_out)
{
    static const char *const drawn_words[] = {
        "masks", "mask", "annotations", "annotation", "annots", "trimaps", "segmentation", "segmentations",
        "segmentationclass", "segmentationobject", "ground_truth", "groundtruth", "ground_truths", "gt", "labels",
        "label", "lung masks", "lung_masks",
    };
    struct folders folders = folders_in(list, range);

    images_out->name = drawn_out->name = NULL;
    while (next_folder(&folders)) {
        if (count_images(list, folders.range) == 0)
            continue;
        if (is_called_images(&folders))
            *images_out = folders;
        if (is_one_of(&folders, drawn_words, sizeof(drawn_words) / sizeof(drawn_words[0])))
            *drawn_out = folders;
    }
    return images_out->name != NULL && drawn_out->name != NULL;
}

/* Is it a mask of an image beside it, like "x_mask.png" and "x_mask_1.png" for "x.png"? In the sorted list, masks
 * come after their image. */
static bool is_mask(const struct image_list *list, size_t i)
{
    const char *const path = path_of(list, i), *const slash = strrchr(path, '/');
    const char *mark = strstr(slash != NULL ? slash : path, "_mask");
    if (list->files[i].is_folder || mark == NULL || (mark[5] != '.' && mark[5] != '_'))
        return false;
    const size_t bytes = (size_t)(mark - path);
    while (i-- > 0 && strncmp(path_of(list, i), path, bytes) == 0)
        if (path_of(list, i)[bytes] == '.')
            return true;
    return false;
}

static int refuse_annotations(const struct top *top, const struct folders *images, const struct folders *drawn)
{
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %.*s is beside %.*s, so its images are masks or "
                        "annotations and neither a class nor to train on: move it away, and put the images into one "
                        "folder for each class" FOLDERS_ADVICE, top->input,
                        (int)(drawn->range.begin - 1), path_of(top->list, drawn->range.first), (int)images->name_bytes,
                        images->name);
}

/* Refuse masks and annotations: they are stored as images, but do not belong to a class. */
static int check_annotations(const struct top *top, struct range range)
{
    struct folders outer = folders_in(top->list, range), images, drawn;

    if (has_annotations(top->list, range, &images, &drawn))
        return refuse_annotations(top, &images, &drawn);
    while (next_folder(&outer))
        if (has_annotations(top->list, inside(top->list, outer.range), &images, &drawn))
            return refuse_annotations(top, &images, &drawn);
    for (size_t i = range.first; i < range.end; i++)
        if (is_mask(top->list, i))
            return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s is a mask of the image beside it by its "
                                "name: move masks away; --folders-are-classes trains on them, too", top->input,
                                path_of(top->list, i));
    return 0;
}

/* Refuse folders that are shards, parts or records of a data set instead of classes. */
static int check_classes(const struct top *top, const struct image_layout *layout)
{
    if (top->folders_are_classes)
        return 0;
    const struct class_habits habits = look_at_classes(top->list, layout);
    const char *const text = no_classes_text(&habits, top, layout->class_count);
    if (text == NULL && habits.have_one_image && layout->class_count >= DOUBTFUL_CLASSES)
        log_message(LOG_RUN, "%s: each of the %" PRIu32 " folders contains one image: are they classes?", top->input,
                    layout->class_count);
    if (text == NULL && 10 * top->choice->left_out_count >= 9 * top->choice->image_count)
        log_message(LOG_RUN, "%s: there are about as many other files as images: if these hold the classes, the "
                    "folders %s, %s, ... are none%s%s", top->input, layout->class_names[0], layout->class_names[1],
                    has_notes(top->choice) ? ": " : "", has_notes(top->choice) ? top->webdataset : "");
    if (text == NULL)
        return 0;
    const bool are_samples = has_notes(top->choice);
    return convert_fail(top->stop, EXIT_CODE_DATA, -EBADMSG, "%s: the folders %s, %s, ... are no classes: %s: %s%sput "
                        "the images into one folder for each class, or list them with their classes in a table ("
                        CONVERT_PROGRAM " csv)" FOLDERS_ADVICE, top->input, layout->class_names[0],
                        layout->class_names[1], text, are_samples ? top->webdataset : "", are_samples ? "; or " : "");
}

/* ---- the layout ---- */

/* Does a split contain only this folder, which is not a class, as in seg_train/seg_train/CLASS, train/images/CLASS,
 * test/test? */
static bool is_wrapping(const struct top *top, const struct image_layout *layout, const struct folders *only)
{
    return find_class(layout, only) == NULL &&
           (has_folders_of_images(top->list, only->range) || name_of(only).split != SPLIT_UNSAID ||
            is_called_images(only));
}

static struct range unwrap_split(struct top *top, const struct image_layout *layout, struct range range)
{
    for (;;) {
        struct folders folders = folders_in(top->list, range);
        if (!next_folder(&folders))
            return range;
        const struct folders only = folders;
        if (next_folder(&folders) || !is_wrapping(top, layout, &only))
            return range;
        note_strays(top, range);
        range = inside(top->list, only.range);
    }
}

static int collect_other(struct top *top, struct image_layout *layout, const char *name, struct range range)
{
    if (range.end == 0)
        return 0;
    const struct range classes = unwrap_split(top, layout, range);
    const int rc = top->folders_are_classes ? 0 : check_copy(top, layout, classes);
    return rc < 0 ? rc : collect_split(top, layout, name, classes);
}

static void report_unlabelled(const struct top *top)
{
    const struct range range = top->splits[SPLIT_UNLABELLED];
    if (range.end == 0)
        return;
    const size_t count = count_images(top->list, range);
    log_message(LOG_RUN, "%s: left out %zu image%s of %.*s, which ha%s no classes by its name", top->input, count,
                count == 1 ? "" : "s", (int)range.begin - 1, path_of(top->list, range.first), count == 1 ? "s" : "ve");
}

/* Report folders called by numbers whose bytewise order, which numbers the classes, is not that of the numbers. */
static void report_numbers(const struct top *top, const struct image_layout *layout)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i < layout->class_count; i++) {
        const char *const name = layout->class_names[i];
        if (digits_of(name) != strlen(name) || strlen(name) > 9)
            return;
        if (first == 0 && i > 0 && strtoul(name, NULL, 10) < strtoul(layout->class_names[i - 1], NULL, 10))
            first = i;
    }
    if (first > 0)
        log_message(LOG_RUN, "%s: the folders are numbers, and classes are in bytewise order: the label of folder %s "
                    "is %" PRIu32 " (with leading zeros, as in 002, both orders are the same)", top->input,
                    layout->class_names[first], first);
}

/* Report a table beside the folders: it may have the classes. */
static void report_table(const struct top *top)
{
    const char *const table = top->choice->tables[0];
    char path[4096], quoted[4096];

    snprintf(path, sizeof(path), "%s/%s", top->input, table);
    const bool may_have_classes = table[0] != '\0' && strchr(table, '/') == NULL &&
                                  strncmp(table, "metadata.", 9) != 0;
    if (may_have_classes && access(path, F_OK) == 0)
        log_message(LOG_RUN, "%s: classes are the folders; if the table beside them has the classes: " CONVERT_PROGRAM
                    " csv %s", top->input, shell_word(path, quoted, sizeof(quoted)));
}

/* Check and collect the training images. Most checks come first, because collecting moves the entries that make up
 * the folders. */
static int collect_training(struct top *top, struct image_layout *layout, struct range range)
{
    int rc = check_filled(top, layout, range);
    if (rc == 0)
        rc = check_names(top, layout);
    if (rc == 0 && !top->folders_are_classes)
        rc = check_annotations(top, range);
    if (rc == 0 && !top->folders_are_classes)
        rc = check_held(top, layout, range);
    if (rc == 0 && !top->folders_are_classes)
        rc = check_copy(top, layout, range);
    if (rc == 0 && !top->folders_are_classes)
        rc = check_groups(top, layout, range);
    if (rc == 0)
        rc = collect_split(top, layout, "train", range);
    if (rc == 0)
        rc = check_classes(top, layout);
    if (rc == 0)
        report_numbers(top, layout);
    if (rc == 0)
        report_table(top);
    return rc;
}

static int collect_splits(struct top *top, struct image_layout *layout)
{
    const bool has_validation = top->splits[SPLIT_VALIDATION].end > 0;

    note_strays(top, top->whole);
    const struct range train = unwrap_split(top, layout, top->splits[SPLIT_TRAIN]);
    int rc = check_nested(top, train);
    if (rc == 0)
        rc = find_classes(top, layout, train);
    if (rc == 0)
        rc = collect_training(top, layout, train);
    if (rc == 0)
        rc = collect_other(top, layout, "validation", top->splits[SPLIT_VALIDATION]);
    if (rc == 0)
        rc = collect_other(top, layout, has_validation ? "test" : "validation", top->splits[SPLIT_TEST]);
    if (rc == 0)
        report_unlabelled(top);
    return rc;
}

static int collect_classes(struct top *top, struct image_layout *layout)
{
    const int rc = find_classes(top, layout, top->whole);
    return rc < 0 ? rc : collect_training(top, layout, top->whole);
}

/* Report a table of metadata that was left out of an archive: it may have the classes. */
static void report_metadata(const struct image_set *set)
{
    for (size_t i = 0; i < IMAGE_CHOICE_TABLES; i++) {
        const char *const table = set->choice.tables[i], *const slash = strrchr(table, '/');
        if (strncmp(slash != NULL ? slash + 1 : table, "metadata.", 9) == 0 && set->is_archive) {
            log_message(LOG_RUN, "%s: %s is not read from an archive: if it has the classes, unpack the archive, and "
                        "convert the folder with 'folder'", set->input, table);
            return;
        }
    }
}

int image_set_find_layout(struct image_set *set)
{
    struct image_layout *const layout = &set->layout;
    struct top top = { .list = &set->list, .input = set->input, .choice = &set->choice,
                       .folders_are_classes = set->folders_are_classes, .webdataset = set->webdataset,
                       .stop = set->stop,
                       .whole = { 0, set->list.count, 0 } };
    bool are_splits;

    report_metadata(set);
    image_list_sort(top.list);
    unwrap(&top);
    int rc = read_top(&top, &are_splits);
    if (rc == 0)
        rc = are_splits ? collect_splits(&top, layout) : collect_classes(&top, layout);
    if (rc == 0 && top.stray_count > 0)
        log_message(LOG_RUN, "%s: left out %zu image%s in no class folder, the first %s", top.input, top.stray_count,
                    top.stray_count == 1 ? "" : "s", top.first_stray);
    return rc;
}
