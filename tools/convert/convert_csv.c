/* The converter of tables: a row for each image, with its class and either its pixels or the path of its file. The
 * first table is the training set, the second one the validation set. Tables are read into memory; image files are
 * read twice: their headers in the beginning, all of them when their records are written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/log.h"
#include "tools/convert/convert.h"
#include "tools/convert/csv_table.h"
#include "tools/convert/image_set.h"

#define TABLES_MAX 2u
#define PATH_BYTES 4096u

static const char *const split_names[TABLES_MAX] = { "train", "validation" };

/* The samples of a table with pixels. */
struct pixel_source {
    const struct conversion *conversion;
    const struct csv_table *table;
};

struct csv_set {
    const struct convert_options *options;
    struct csv_table tables[TABLES_MAX];
    size_t table_count;
    struct image_set images;                /* of tables with paths; classes are used by both kinds */
    int folders[TABLES_MAX];                /* of the tables: paths are relative to them */
    bool is_missed[TABLES_MAX];             /* a file of the table does not exist */
    uint64_t ended[TABLES_MAX];             /* paths that were completed by an extension */
    struct pixel_source sources[TABLES_MAX];
};

static int refuse(const struct csv_set *set, const struct csv_table *table, const char *problem)
{
    return convert_fail(set->images.stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s", table->input, problem);
}

/* The folder of a table, to be freed: "." or with a slash at its end; NULL without memory. */
static char *folder_of(const char *input)
{
    const char *const end = strrchr(input, '/');
    return end == NULL ? strdup(".") : strndup(input, (size_t)(end - input) + 1);
}

static int open_folder(struct csv_set *set, size_t t)
{
    const char *const input = set->tables[t].input;
    char *const path = folder_of(input);

    if (path != NULL)
        set->folders[t] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = path == NULL ? ENOMEM : errno;
    free(path);
    if (set->folders[t] >= 0)
        return 0;
    return convert_fail(set->images.stop, EXIT_CODE_DATA, -error, "%s: cannot open its folder: %s", input,
                        exit_cause(-error));
}

/* Add an image file. */
static int add_open_file(struct csv_set *set, const char *path, int fd, struct image_file *file)
{
    struct stat stat;
    bool is_image;

    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        image_choice_refuse(&set->images.choice, path, "is not a regular file");
        return 0;
    }
    file->bytes = (uint32_t)stat.st_size;
    const int rc = image_choice_take(&set->images.choice, path, (uint64_t)stat.st_size, image_head_read_file, &fd,
                                    &is_image);
    return rc < 0 || !is_image ? rc : image_list_add(&set->images.list, path, file);
}

/* Copy the path of a row; false if it is too long. */
static bool copy_path(const struct csv_row *row, char path[PATH_BYTES])
{
    if (row->path.bytes >= PATH_BYTES)
        return false;
    memcpy(path, row->path.text, row->path.bytes);
    path[row->path.bytes] = '\0';
    return true;
}

/* Open the file of a row. Tables may list names without extension: then the first extension that names a file is
 * appended to the path. A descriptor, or -1 with errno for the path itself. */
static int open_file(int folder, char path[PATH_BYTES])
{
    static const char *const extensions[] = { ".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG" };
    const size_t bytes = strlen(path);

    int fd = openat(folder, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || image_choice_name(path))
        return fd;
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]) && fd < 0; i++) {
        if (bytes + strlen(extensions[i]) >= PATH_BYTES)
            continue;
        strcpy(path + bytes, extensions[i]);
        fd = openat(folder, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    if (fd < 0) {
        path[bytes] = '\0';
        errno = ENOENT;
    }
    return fd;
}

static int add_file(struct csv_set *set, size_t t, const struct csv_row *row)
{
    struct image_file file = { .label = row->class, .input = (uint16_t)t };
    char path[PATH_BYTES];

    if (atomic_load(set->options->interrupted))
        return -ECANCELED;
    if (!copy_path(row, path)) {
        image_choice_refuse(&set->images.choice, "a path", "is over 4095 bytes long");
        return 0;
    }
    const int fd = open_file(set->folders[t], path);
    set->ended[t] += fd >= 0 && strlen(path) > row->path.bytes;
    if (fd < 0) {
        set->is_missed[t] = set->is_missed[t] || (errno == ENOENT && path[0] != '/');
        return image_set_refuse(&set->images, path, errno);
    }
    const int rc = add_open_file(set, path, fd, &file);
    close(fd);
    if (rc < 0)
        stop_fail(set->images.stop, EXIT_CODE_MEMORY, "%s: no memory for the list of images", set->tables[t].input);
    return rc;
}

static int add_files(struct csv_set *set, size_t t)
{
    struct image_split *split = &set->images.layout.splits[t];
    const size_t before = set->images.list.count;

    int rc = 0;
    for (size_t i = 0; rc == 0 && i < set->tables[t].row_count; i++)
        rc = add_file(set, t, &set->tables[t].rows[i]);
    *split = (struct image_split){ split_names[t], before, set->images.list.count - before };
    if (set->ended[t] > 0)
        log_message(LOG_RUN, "%s: %" PRIu64 " path%s no extension: using the files with one, such as %s",
                    set->tables[t].input, set->ended[t], set->ended[t] == 1 ? " has" : "s have",
                    image_list_path(&set->images.list, &set->images.list.files[before]));
    return rc;
}

static int read_image(const struct image_set *images, const struct image_file *file, uint8_t *out)
{
    const struct csv_set *set = images->arg;
    return image_set_read_file(images, file, set->folders[file->input], out);
}

/* 0, or a negative errno after stop_fail, whose message says to which folder paths are relative. */
static int end_choice(struct csv_set *set)
{
    char hint[PATH_BYTES] = "";

    for (size_t t = set->table_count; t-- > 0;) {
        char *const folder = set->is_missed[t] ? folder_of(set->tables[t].input) : NULL;
        if (folder != NULL)
            snprintf(hint, sizeof(hint), "paths are relative to the table's folder, %s",
                     strcmp(folder, ".") == 0 ? "the current directory" : folder);
        free(folder);
    }
    set->images.choice.refused_hint = hint[0] != '\0' ? hint : NULL;
    const int rc = image_set_end_choice(&set->images, set->options);
    set->images.choice.refused_hint = NULL;
    return rc;
}

static int describe_files(struct csv_set *set, struct conversion *conversion)
{
    uint64_t rows = 0;
    int rc = 0;

    for (size_t t = 0; t < set->table_count; t++)
        rows += set->tables[t].row_count;
    image_choice_begin(&set->images.choice, IMAGE_CHOICE_ALL, rows);
    for (size_t t = 0; t < set->table_count && rc == 0; t++)
        rc = add_files(set, t);
    if (rc == 0)
        rc = end_choice(set);
    set->images.layout.split_count = set->table_count;
    if (rc == 0)
        image_set_describe(&set->images, conversion);
    return rc;
}

/* A table does not say the shape of its images: they are square, grey or RGB. */
static bool find_shape(size_t values, struct conversion *conversion)
{
    static const uint32_t depths[] = { 1, 3 };

    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        uint32_t side = 1;
        while ((size_t)side * side * depths[i] < values)
            side++;
        if ((size_t)side * side * depths[i] == values) {
            conversion->height = conversion->width = side;
            conversion->depth = depths[i];
            return true;
        }
    }
    return false;
}

static int pixel_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                        size_t *count_out)
{
    const struct pixel_source *source = arg;
    const struct csv_table *table = source->table;

    (void)scratch;
    *count_out = convert_raw_image(source->conversion, table->pixels + index * (table->columns.count - 1),
                                   table->rows[index].class, values_out);
    return 0;
}

static int pixel_label(void *arg, uint64_t index, void *scratch, int64_t *label_out)
{
    const struct pixel_source *const source = arg;

    (void)scratch;
    *label_out = source->table->rows[index].class;
    return 0;
}

static int describe_pixels(struct csv_set *set, struct conversion *conversion)
{
    const struct image_layout *classes = &set->images.layout;
    const struct csv_table *first = &set->tables[0];

    if (!find_shape(first->columns.count - 1, conversion))
        return refuse(set, first, "the pixels of a row are not a square image, neither grey nor RGB");
    conversion->classes = classes->class_count;
    conversion->class_names = (const char *const *)classes->class_names;
    for (size_t t = 0; t < set->table_count; t++) {
        set->sources[t] = (struct pixel_source){ conversion, &set->tables[t] };
        conversion->sources[t] = (struct sample_source){
            .split = split_names[t], .record_count = set->tables[t].row_count,
            .sample = pixel_sample, .label = pixel_label, .arg = &set->sources[t],
        };
    }
    conversion->source_count = set->table_count;
    return 0;
}

static void report_columns(const struct csv_table *table)
{
    const struct csv_columns *columns = &table->columns;

    const char *rows = table->row_count == 1 ? "row" : "rows";
    const char *header = columns->has_header ? ", with a header row" : "";

    if (columns->has_pixels)
        log_message(LOG_RUN, "%s: %zu %s of %zu pixels, the label is column %zu%s", table->input,
                    table->row_count, rows, columns->count - 1, columns->label + 1, header);
    else
        log_message(LOG_RUN, "%s: %zu %s, the file is column %zu, the label column %zu%s", table->input,
                    table->row_count, rows, columns->path + 1, columns->label + 1, header);
}

static bool names_file(const struct csv_set *set, size_t t, const struct csv_row *row)
{
    char path[PATH_BYTES];
    const int fd = copy_path(row, path) ? open_file(set->folders[t], path) : -1;

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Drop a header row with unknown names ("id,breed"): its file does not exist, and that of the next row does. */
static void drop_header(const struct csv_set *set, size_t t, struct csv_table *table)
{
    if (table->columns.has_header || table->row_count < 2 || names_file(set, t, &table->rows[0]) ||
        !names_file(set, t, &table->rows[1]))
        return;
    memmove(table->rows, table->rows + 1, (table->row_count - 1) * sizeof(*table->rows));
    table->row_count--;
    table->columns.has_header = true;
}

static int read_tables(struct csv_set *set)
{
    const struct csv_columns *first = &set->tables[0].columns;

    for (size_t t = 0; t < set->options->input_count; t++) {
        struct csv_table *table = &set->tables[set->table_count++];
        int rc = csv_table_read(table, set->options->inputs[t], set->options->interrupted, set->images.stop);
        if (rc == 0 && !table->columns.has_pixels)
            rc = open_folder(set, t);
        if (rc < 0)
            return rc;
        if (!table->columns.has_pixels)
            drop_header(set, t, table);
        report_columns(table);
        if (table->columns.has_pixels != first->has_pixels ||
            (first->has_pixels && table->columns.count != first->count))
            return refuse(set, table, "has different columns than the first table");
    }
    return 0;
}

static int describe(struct csv_set *set, struct conversion *conversion)
{
    struct image_layout *classes = &set->images.layout;

    int rc = read_tables(set);
    if (rc == 0)
        rc = csv_classes_find(set->tables, set->table_count, set->options->interrupted, set->images.stop,
                              &classes->class_names, &classes->class_count);
    if (rc < 0)
        return rc;
    if (classes->class_count < 2)
        return refuse(set, &set->tables[0], "all rows have the same class");
    return set->tables[0].columns.has_pixels ? describe_pixels(set, conversion) : describe_files(set, conversion);
}

static int csv_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct csv_set *const set = conversion->state;

    set->folders[0] = set->folders[1] = -1;
    set->options = options;
    set->images.input = options->input_count == 1 ? options->inputs[0] : "the tables";
    set->images.stop = stop;
    set->images.read = read_image;
    set->images.arg = set;
    conversion->origin = "rows of a table";
    return describe(set, conversion);
}

static void csv_release(struct conversion *conversion)
{
    struct csv_set *const set = conversion->state;

    for (size_t t = 0; t < TABLES_MAX; t++) {
        csv_table_release(&set->tables[t]);
        if (set->folders[t] >= 0)
            close(set->folders[t]);
    }
    image_set_release(&set->images);
}

const struct converter convert_csv = {
    .name = "csv",
    .summary = "a table of images: each row has the class and either the path of a JPEG or PNG, relative to the table, "
               "or all pixels; a header row names the columns (path, file, filename, image, ...; label, class, "
               "category, ...), but is optional for two columns",
    .inputs = "TRAIN [VALIDATION]",
    .input_count_least = 1,
    .input_count_most = TABLES_MAX,
    .takes = CONVERT_IMAGES,
    .state_bytes = sizeof(struct csv_set),
    .prepare = csv_prepare,
    .release = csv_release,
};
