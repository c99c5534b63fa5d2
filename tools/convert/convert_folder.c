/* The converter of images in folders, one folder for each class. The folders are walked through once
 * (image_folder.h); an image is read when its record is written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/text/shell_word.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_folder.h"
#include "tools/convert/image_repeats.h"
#include "tools/convert/image_set.h"
#include "tools/convert/metadata.h"

struct folder {
    struct metadata metadata;
    struct csv_set *table;      /* the images of the metadata; NULL: classes are folders */
    struct image_set images;
    int fd;
    const struct convert_options *options;
};

static int read_image(const struct image_set *set, const struct image_file *file, uint8_t *out)
{
    const struct folder *folder = set->arg;
    return image_set_read_file(set, file, folder->fd, out);
}

/* Remove the last component of an absolute path; false for the root. */
static bool go_up(char *path)
{
    char *const slash = strrchr(path, '/');

    if (slash == NULL || path[1] == '\0')
        return false;
    slash[slash == path] = '\0';
    return true;
}

/* The deepest existing folder of a path, of which the last components may not exist yet; NULL on errors. */
static char *existing_folder(const char *path)
{
    char *text = path[0] == '/' ? strdup(path) : NULL, *found;

    if (path[0] != '/' && asprintf(&text, "./%s", path) < 0)
        return NULL;
    while (text != NULL && (found = realpath(text, NULL)) == NULL && go_up(text))
        ;
    const bool is_found = text != NULL && found != NULL;
    free(text);
    return is_found ? found : NULL;
}

/* Is the output the folder that is converted, or inside it? Errors are ignored here; they are reported when the
 * output is written. */
static bool holds_output(const struct folder *folder, const char *output)
{
    struct stat input, above;
    char *const path = existing_folder(output);
    bool holds = false;

    if (path == NULL || fstat(folder->fd, &input) != 0) {
        free(path);
        return false;
    }
    do
        holds = stat(path, &above) == 0 && above.st_dev == input.st_dev && above.st_ino == input.st_ino;
    while (!holds && go_up(path));
    free(path);
    return holds;
}

static int walk(struct folder *folder)
{
    struct image_set *const images = &folder->images;
    struct image_folder tree = { .choice = &images->choice, .list = &images->list,
                                 .interrupted = folder->options->interrupted };

    const int rc = image_folder_walk(&tree, folder->fd);
    if (rc < 0 && rc != -ECANCELED)
        stop_fail(images->stop, EXIT_CODE_MEMORY, "%s: cannot look at its images: %s", images->input, exit_cause(rc));
    return rc;
}

/* The converter for a file with this name, which was given instead of a folder. */
static const char *converter_of(const char *name)
{
    static const struct { const char *ending, *converter; } rows[] = {
        { ".csv", "csv" }, { ".tsv", "csv" }, { ".npy", "npy" }, { ".npz", "npy" }, { ".tfrecord", "tfrecord" },
        { ".tfrecords", "tfrecord" },
    };
    const char *const end = strrchr(name, '.');

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && end != NULL; i++) {
        if (strcasecmp(end, rows[i].ending) == 0)
            return rows[i].converter;
    }
    return "tar";
}

static int fail_open(const struct image_set *images, int rc)
{
    if (rc == -ENOTDIR && access(images->input, F_OK) == 0)
        return convert_fail(images->stop, EXIT_CODE_DATA, rc, "%s: is a file, not a folder: convert it with '%s'%s",
                            images->input, converter_of(images->input),
                            strcmp(converter_of(images->input), "tar") == 0 ? " if it is an archive" : "");
    return convert_fail(images->stop, EXIT_CODE_DATA, rc, "%s: cannot open the folder: %s", images->input,
                        exit_cause(rc));
}

/* ---- links to the same file ---- */

static void report_links(const struct image_set *set, const struct repeats *repeats, const char *where,
                         const char *result)
{
    if (repeats->count > 0)
        log_message(LOG_RUN, "%s: %zu link%s to an image in %s, such as %s and %s, one file: %s", set->input,
                    repeats->count, repeats->count == 1 ? " leads" : "s lead", where,
                    image_list_path(&set->list, repeats->first.entry),
                    image_list_path(&set->list, repeats->second.entry), result);
}

static int refuse_two_classes(const struct image_set *set, const struct repeats *repeats)
{
    return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s and %s are one file, through a link, in the "
                        "classes %s and %s (%zu such image%s): an image has one class: remove one of them; "
                        "--folders-are-classes trains on both", set->input,
                        image_list_path(&set->list, repeats->first.entry),
                        image_list_path(&set->list, repeats->second.entry),
                        set->layout.class_names[repeats->first.label], set->layout.class_names[repeats->second.label],
                        repeats->count, repeats->count == 1 ? "" : "s");
}

static struct listed_image *list_images(const struct image_set *set, size_t *count_out)
{
    struct listed_image *const images = calloc(set->list.count + 1, sizeof(*images));
    size_t count = 0;

    for (size_t split = 0; split < set->layout.split_count && images != NULL; split++) {
        const struct image_split *const part = &set->layout.splits[split];
        for (size_t i = part->first; i < part->first + part->count; i++) {
            const struct image_file *const file = &set->list.files[i];
            images[count++] = (struct listed_image){ file->identity, file->label, (uint32_t)split, i, file };
        }
    }
    *count_out = count;
    return images;
}

/* A file that occurs in two classes is refused, unless all folders are classes; other links to the same file are
 * reported. */
static int check_links(const struct image_set *set)
{
    struct image_repeats repeats;
    size_t count;
    struct listed_image *const images = list_images(set, &count);

    if (images == NULL)
        return convert_fail(set->stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: no memory to compare its files", set->input);
    image_repeats_find(images, count, &repeats);
    free(images);
    if (repeats.other_class.count > 0 && !set->folders_are_classes)
        return refuse_two_classes(set, &repeats.other_class);
    report_links(set, &repeats.other_class, "another class", "an image has one class");
    report_links(set, &repeats.other_split, "another set", "what is trained on cannot test");
    report_links(set, &repeats.same, "its class", "it counts as often as it is there");
    return 0;
}

/* ---- the converter ---- */

static int open_input(struct folder *folder)
{
    const struct image_set *const images = &folder->images;

    folder->fd = open(images->input, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return fail_open(images, -errno);
    return !holds_output(folder, folder->options->output) ? 0
         : convert_fail(images->stop, EXIT_CODE_USAGE, -EINVAL, "%s: is inside %s, which is converted: choose a folder "
                        "outside", folder->options->output, images->input);
}

static int find_images(struct folder *folder)
{
    struct image_set *images = &folder->images;

    int rc = walk(folder);
    if (rc == 0)
        rc = image_set_end_choice(images, folder->options);
    if (rc == 0)
        rc = image_set_find_layout(images);
    if (rc == 0)
        rc = check_links(images);
    return rc;
}

/* Take the classes from tables of metadata in the folder, unless folders are chosen. 0; -ENODATA if there are none with
 * labels; or a negative errno after stop_fail. */
static int take_metadata(struct folder *folder, const struct convert_options *options, struct stop *stop,
                         struct conversion *conversion)
{
    int rc = options->folders_are_classes ? 0 : metadata_find(&folder->metadata, options->inputs[0], stop);

    if (rc == 0 && folder->metadata.count > 0)
        rc = csv_set_open(&folder->table, &folder->metadata, options, stop, conversion);
    else if (rc == 0)
        rc = -ENODATA;
    if (rc != -ENODATA)
        return rc;
    csv_set_close(folder->table);
    folder->table = NULL;
    if (folder->metadata.count > 0)
        log_message(LOG_RUN, "%s: has no column with the name of a label (label, class, category, ...): classes are "
                    "the folders; --label-column chooses a column", folder->metadata.tables[0]);
    else if (options->label_column != NULL || options->path_column != NULL || options->split_column != NULL)
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "%s: options of columns are for a metadata.csv or "
                            "metadata.jsonl, which is not there", options->inputs[0]);
    return -ENODATA;
}

static int folder_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct folder *const folder = conversion->state;
    char quoted[512];

    folder->fd = -1;
    folder->options = options;
    folder->images.input = options->inputs[0];
    folder->images.stop = stop;
    folder->images.folders_are_classes = options->folders_are_classes;
    snprintf(folder->images.webdataset, sizeof(folder->images.webdataset), "tar --sort=name -cf samples.tar -C %s . && "
             CONVERT_PROGRAM " webdataset samples.tar", shell_word(options->inputs[0], quoted, sizeof(quoted)));
    image_choice_begin(&folder->images.choice, IMAGE_CHOICE_STORED, 0);
    folder->images.choice.orientation = image_change_orientation(&options->change);
    folder->images.read = read_image;
    folder->images.arg = folder;
    int rc = open_input(folder);
    if (rc == 0)
        rc = take_metadata(folder, options, stop, conversion);
    if (rc != -ENODATA)
        return rc;
    conversion->origin = "images in folders";
    rc = find_images(folder);
    if (rc == 0)
        image_set_describe(&folder->images, conversion);
    return rc;
}

static void folder_release(struct conversion *conversion)
{
    struct folder *const folder = conversion->state;

    csv_set_close(folder->table);
    metadata_release(&folder->metadata);
    image_set_release(&folder->images);
    if (folder->fd >= 0)
        close(folder->fd);
}

const struct converter convert_folder = {
    .name = "folder",
    .summary = "JPEG and PNG images, a folder for each class: DIR/CLASS or DIR/train/CLASS; or the classes are in a "
               "metadata.csv or metadata.jsonl (file_name, label) in DIR or in each of DIR/train, DIR/validation, ...",
    .inputs = "DIR",
    .input_count_least = 1,
    .input_count_most = 1,
    .takes = CONVERT_IMAGES | CONVERT_FOLDERS | CONVERT_LABEL_COLUMN | CONVERT_PATH_COLUMN | CONVERT_SPLIT_COLUMN,
    .state_bytes = sizeof(struct folder),
    .prepare = folder_prepare,
    .release = folder_release,
};
