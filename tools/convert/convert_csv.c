/* The converter of tables, and of tables of metadata in folders of images (metadata.h): each row has the class of an
 * image, and either its pixels or the path of its file. The first table is the training set, the second one the
 * validation set, unless a column gives the splits. Tables are read into memory. Image files are read twice: first only
 * their headers, and completely when their records are written. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/text/shell_word.h"
#include "tools/convert/convert.h"
#include "tools/convert/csv_table.h"
#include "tools/convert/image_repeats.h"
#include "tools/convert/image_set.h"
#include "tools/convert/metadata.h"

#define TABLES_MAX 3u
#define PARTS_MAX 3u
#define PATH_BYTES 4096u
#define PATH_SHOWN 1000          /* bytes of a path in a hint */
#define IDS_LEAST 10u           /* with fewer rows, each may have a class of its own */

static const char *const split_names[PARTS_MAX] = { "train", "validation", "test" };

/* Argument of the sample functions of a split, if the table has pixels. */
struct pixel_source {
    const struct conversion *conversion;
    const struct csv_table *table;
};

struct csv_set {
    const struct convert_options *options;
    char *const *inputs;        /* the paths of the tables: those of the options, or of the metadata */
    size_t input_count;
    const struct metadata *metadata;        /* NULL: the tables were named by the user */
    struct csv_table tables[TABLES_MAX];
    size_t table_count;
    struct csv_table parts[PARTS_MAX];      /* the rows of each split; the memory belongs to the tables */
    size_t part_tables[PARTS_MAX];          /* for each split, the index of its table */
    size_t part_count;
    /* for tables with paths; class names are used for tables with pixels, too */
    struct image_set images;
    int folders[TABLES_MAX];                /* for each table, the folder that paths are relative to */
    bool is_missed[TABLES_MAX];             /* a file of the table does not exist */
    /* name of a subfolder of `folders[t]` that has the first missing file; "": none */
    char beside[TABLES_MAX][NAME_MAX + 1];
    /* name of another subfolder that has a later missing file or, with --images, of a folder beside that subfolder */
    char others[TABLES_MAX][NAME_MAX + 1];
    char alike[TABLES_MAX][NAME_MAX + 1];   /* a file that the first missing one may mean: "007.jpg" for 7; "": none */
    bool has_addresses[TABLES_MAX];         /* a missing file is an address, "https://..." */
    /* number of paths to which an extension was appended; the first such path follows */
    uint64_t ended[TABLES_MAX];
    char first_ended[TABLES_MAX][PATH_BYTES];
    /* number of paths with backslashes, which were replaced by slashes; the first such path follows */
    uint64_t turned[TABLES_MAX];
    char first_turned[TABLES_MAX][PATH_BYTES];
    struct pixel_source sources[PARTS_MAX];
};

static int refuse(const struct csv_set *set, const struct csv_table *table, const char *problem)
{
    return convert_fail(set->images.stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s", table->input, problem);
}

/* The folder of a table, to be freed: "." or with a slash at its end; NULL if out of memory. */
static char *folder_of(const char *input)
{
    const char *const end = strrchr(input, '/');
    return end == NULL ? strdup(".") : strndup(input, (size_t)(end - input) + 1);
}

/* The folder that the paths of a table are relative to, to be freed; NULL if out of memory. */
static char *images_folder_of(const struct csv_set *set, const char *input)
{
    return set->options->images_folder != NULL ? strdup(set->options->images_folder) : folder_of(input);
}

static int open_folder(struct csv_set *set, size_t t)
{
    const char *const input = set->tables[t].input;
    const char *const images = set->options->images_folder;
    char *const path = images_folder_of(set, input);

    if (path != NULL)
        set->folders[t] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = path == NULL ? ENOMEM : errno;
    free(path);
    if (set->folders[t] >= 0)
        return 0;
    return convert_fail(set->images.stop, EXIT_CODE_DATA, -error, "%s: cannot open the folder of its images%s%s: %s",
                        input, images != NULL ? ", " : "", images != NULL ? images : "", exit_cause(-error));
}

/* Add the image file of a row. */
static int add_open_file(struct csv_set *set, const char *path, int fd, struct image_file *file, struct csv_row *row)
{
    struct stat stat;
    bool is_image;

    if (fstat(fd, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        image_choice_refuse(&set->images.choice, path, "is not a regular file");
        return 0;
    }
    file->bytes = (uint32_t)stat.st_size;
    row->identity = file_identity_of(&stat);
    const int rc = image_choice_take(&set->images.choice, path, (uint64_t)stat.st_size, image_head_read_file, &fd,
                                    &is_image);
    row->is_used = rc == 0 && is_image;
    return row->is_used ? image_list_add(&set->images.list, path, file) : rc;
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

/* Open a path. If it does not exist and has backslashes, as tables from Windows have, try it with slashes instead. */
static int open_path(int folder, char path[PATH_BYTES])
{
    const int fd = openat(folder, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 || errno != ENOENT || strchr(path, '\\') == NULL)
        return fd;
    for (char *at = path; (at = strchr(at, '\\')) != NULL;)
        *at = '/';
    return openat(folder, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Open the file of a row. Tables may list names without extension: then the first extension for which a file exists
 * is appended to the path. A descriptor, or -1 with the errno of opening the path itself. */
static int open_file(int folder, char path[PATH_BYTES])
{
    static const char *const extensions[] = { ".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG" };
    const size_t bytes = strlen(path);

    int fd = open_path(folder, path);
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

/* Does the path of a row exist in `folder`, a folder inside `outer`? */
static bool is_inside(int outer, const char *folder, const char *path)
{
    char inside[PATH_BYTES];
    const int length = snprintf(inside, sizeof(inside), "%s/%s", folder, path);
    const int fd = length >= 0 && length < (int)sizeof(inside) ? open_file(outer, inside) : -1;

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Find the first folder inside `place` (".": table_folder, "..": its parent) that contains the file. False if there
 * is none. */
static bool find_beside(int table_folder, const char *place, const char *path, char *name_out, size_t name_size)
{
    const int own = openat(table_folder, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = own < 0 ? NULL : fdopendir(own);
    const struct dirent *entry;
    bool is_found = false;

    while (entries != NULL && !is_found && (entry = readdir(entries)) != NULL) {
        is_found = entry->d_name[0] != '.' && is_inside(dirfd(entries), entry->d_name, path);
        if (is_found)
            snprintf(name_out, name_size, "%s", entry->d_name);
    }
    if (entries != NULL)
        closedir(entries);
    else if (own >= 0)
        close(own);
    return is_found;
}

/* Does the name of an image mean the same as a name in a table: a number with other zeros ("007.jpg" and "7" or
 * "7.0"), another case, or another extension? */
static bool is_alike(const char *file, const char *name)
{
    const size_t file_stem = strcspn(file, "."), name_stem = strcspn(name, ".");
    const bool is_plain = name[name_stem] == '\0' || image_choice_name(name);
    const struct csv_text stem = { file, file_stem }, whole = { name, is_plain ? name_stem : strlen(name) };
    uint32_t one, other;

    if (!image_choice_name(file))
        return false;
    if (csv_read_number(whole, &one) && csv_read_number(stem, &other))
        return one == other;
    return file_stem == name_stem && strncasecmp(file, name, name_stem) == 0;
}

/* Find an image in the folder of a missing file whose name may be meant. False if there is none. */
static bool find_alike(int table_folder, const char *path, char *name_out, size_t name_size)
{
    const char *const slash = strrchr(path, '/'), *const name = slash != NULL ? slash + 1 : path;
    char folder[PATH_BYTES];

    snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - path) : 1, slash != NULL ? path : ".");
    const int own = openat(table_folder, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = own < 0 ? NULL : fdopendir(own);
    const struct dirent *entry;
    name_out[0] = '\0';

    while (entries != NULL && (entry = readdir(entries)) != NULL)
        if (is_alike(entry->d_name, name) && (name_out[0] == '\0' || strcmp(entry->d_name, name_out) < 0))
            snprintf(name_out, name_size, "%s", entry->d_name);
    if (entries != NULL)
        closedir(entries);
    else if (own >= 0)
        close(own);
    return name_out[0] != '\0';
}

/* A file does not exist in the folder for the paths of its table: find other folders that contain it, or a file with
 * another name there that may be meant. */
static void note_missed(struct csv_set *set, size_t t, const char *path)
{
    char *const beside = set->beside[t], *const others = set->others[t];
    const bool is_first = !set->is_missed[t];

    set->is_missed[t] = true;
    if (is_first && find_alike(set->folders[t], path, set->alike[t], NAME_MAX + 1))
        return;
    if (set->metadata != NULL || set->alike[t][0] != '\0')
        return;
    if (is_first && !find_beside(set->folders[t], ".", path, beside, NAME_MAX + 1) &&
        set->options->images_folder != NULL)
        find_beside(set->folders[t], "..", path, others, NAME_MAX + 1);
    if (!is_first && beside[0] != '\0' && others[0] == '\0' && !is_inside(set->folders[t], beside, path))
        find_beside(set->folders[t], ".", path, others, NAME_MAX + 1);
}

/* Does the path lead out of the folder that it is relative to? */
static bool leads_outside(const char *path)
{
    const size_t bytes = strlen(path);

    return path[0] == '/' || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 || strstr(path, "/../") != NULL ||
           (bytes >= 3 && strcmp(path + bytes - 3, "/..") == 0);
}

static int add_file(struct csv_set *set, size_t t, struct csv_row *row)
{
    struct image_file file = { .label = row->class, .input = (uint16_t)t };
    char path[PATH_BYTES];

    if (atomic_load(set->options->interrupted))
        return -ECANCELED;
    if (!copy_path(row, path)) {
        image_choice_refuse(&set->images.choice, "a path", "is over 4095 bytes long");
        return 0;
    }
    if (set->metadata != NULL && leads_outside(path)) {
        image_choice_refuse(&set->images.choice, path, "is outside the folder of its table");
        return 0;
    }
    const int fd = open_file(set->folders[t], path);
    if (fd >= 0 && strlen(path) > row->path.bytes && set->ended[t]++ == 0)
        strcpy(set->first_ended[t], path);
    if (fd >= 0 && memchr(row->path.text, '\\', row->path.bytes) != NULL && strchr(path, '\\') == NULL &&
        set->turned[t]++ == 0)
        strcpy(set->first_turned[t], path);
    if (fd < 0) {
        const int error = errno;
        set->has_addresses[t] = set->has_addresses[t] || strstr(path, "://") != NULL;
        if (error == ENOENT && path[0] != '/')
            note_missed(set, t, path);
        return image_set_refuse(&set->images, path, error);
    }
    const int rc = add_open_file(set, path, fd, &file, row);
    close(fd);
    if (rc < 0)
        stop_fail(set->images.stop, EXIT_CODE_MEMORY, "%s: no memory for the list of images", set->tables[t].input);
    return rc;
}

static int add_files(struct csv_set *set, size_t part)
{
    struct image_split *split = &set->images.layout.splits[part];
    const size_t before = set->images.list.count, t = set->part_tables[part];

    int rc = 0;
    for (size_t i = 0; rc == 0 && i < set->parts[part].row_count; i++)
        rc = add_file(set, t, &set->parts[part].rows[i]);
    *split = (struct image_split){ split_names[part], before, set->images.list.count - before };
    const bool is_last = part + 1 == set->part_count || set->part_tables[part + 1] != t;
    if (set->ended[t] > 0 && is_last)
        log_message(LOG_RUN, "%s: %" PRIu64 " path%s no extension: using the files with one, such as %s",
                    set->tables[t].input, set->ended[t], set->ended[t] == 1 ? " has" : "s have",
                    set->first_ended[t]);
    if (set->turned[t] > 0 && is_last)
        log_message(LOG_RUN, "%s: %" PRIu64 " path%s backslashes: reading them as slashes, such as %s",
                    set->tables[t].input, set->turned[t], set->turned[t] == 1 ? " has" : "s have",
                    set->first_turned[t]);
    return rc;
}

static int read_image(const struct image_set *images, const struct image_file *file, uint8_t *out)
{
    const struct csv_set *set = images->arg;
    return image_set_read_file(images, file, set->folders[file->input], out);
}

/* Describe which folder the paths of a table are relative to, and which folder may be meant. */
static void describe_missed(const struct csv_set *set, size_t t, const char *folder, char *text, size_t text_size)
{
    const bool is_current = strcmp(folder, ".") == 0;
    char found[2 * PATH_BYTES], quoted[PATH_BYTES / 2];
    const int length = snprintf(text, text_size, "paths are relative to %s, %s",
                                set->options->images_folder != NULL ? "--images" : "the table's folder",
                                is_current ? "the current directory" : folder);

    if (length < 0 || (size_t)length >= text_size)
        return;
    if (set->alike[t][0] != '\0')
        snprintf(text + length, text_size - (size_t)length, "; %s is there: write names in the table as the files have "
                 "them, ids with their leading zeros (a program that reads them as numbers drops these)",
                 set->alike[t]);
    if (set->others[t][0] != '\0')
        snprintf(text + length, text_size - (size_t)length, "; such files are in the folder %s%s%s, too: put all "
                 "images, or links to them, into one folder", set->beside[t],
                 set->beside[t][0] != '\0' ? " and in " : "", set->others[t]);
    if (set->others[t][0] != '\0' || set->beside[t][0] == '\0')
        return;
    snprintf(found, sizeof(found), "%s%s%s", is_current ? "" : folder,
             is_current || folder[strlen(folder) - 1] == '/' ? "" : "/", set->beside[t]);
    snprintf(text + length, text_size - (size_t)length, "; there are such files in %.*s: %s --images=%s", PATH_SHOWN,
             found, set->options->images_folder != NULL ? "give" : "add", shell_word(found, quoted, sizeof(quoted)));
}

/* Report refused files; the message has a hint about the folder that paths are relative to. 0, or a negative errno
 * after stop_fail. */
static int end_choice(struct csv_set *set)
{
    char hint[PATH_BYTES] = "";

    for (size_t t = set->table_count; t-- > 0;) {
        char *const folder = set->is_missed[t] ? images_folder_of(set, set->tables[t].input) : NULL;
        if (set->has_addresses[t])
            snprintf(hint, sizeof(hint), "addresses are not opened: download the images, and write the paths of their "
                     "files");
        else if (folder != NULL)
            describe_missed(set, t, folder, hint, sizeof(hint));
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

    for (size_t part = 0; part < set->part_count; part++)
        rows += set->parts[part].row_count;
    image_choice_begin(&set->images.choice, IMAGE_CHOICE_ALL, rows);
    set->images.choice.orientation = image_change_orientation(&set->options->change);
    for (size_t part = 0; part < set->part_count && rc == 0; part++)
        rc = add_files(set, part);
    if (rc == 0)
        rc = end_choice(set);
    set->images.layout.split_count = set->part_count;
    if (rc == 0)
        image_set_describe(&set->images, conversion);
    return rc;
}

/* Derive the shape of images from the number of their values: they are square, and grey or RGB. */
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
    *count_out = convert_raw_image(source->conversion,
                                   table->pixels + table->rows[index].pixel_row * table->columns.pixel_count,
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

    if (!find_shape(first->columns.pixel_count, conversion))
        return refuse(set, first, "the pixels of a row are not a square image, neither grey nor RGB");
    conversion->classes = classes->class_count;
    conversion->class_names = (const char *const *)classes->class_names;
    for (size_t part = 0; part < set->part_count; part++) {
        set->sources[part] = (struct pixel_source){ conversion, &set->parts[part] };
        conversion->sources[part] = (struct sample_source){
            .split = split_names[part], .record_count = set->parts[part].row_count,
            .sample = pixel_sample, .label = pixel_label, .arg = &set->sources[part],
        };
    }
    conversion->source_count = set->part_count;
    return 0;
}

static void report_columns(const struct csv_table *table)
{
    const struct csv_columns *const columns = &table->columns;
    const char *const rows = table->row_count == 1 ? "row" : "rows";
    char splits[64] = "", unused[256] = "";

    if (columns->places[CSV_SPLIT] != CSV_NO_COLUMN)
        snprintf(splits, sizeof(splits), ", the split column %zu", columns->places[CSV_SPLIT] + 1);
    if (columns->unused[0] != '\0')
        snprintf(unused, sizeof(unused), "; not used: %s", columns->unused);
    const char *const header = table->lines_added > 0 ? ", members of JSON Lines"
                               : columns->has_header ? ", with a header row" : "";
    if (columns->pixel_count > 0)
        log_message(LOG_RUN, "%s: %zu %s of %zu pixels%s, the label is column %zu%s%s%s", table->input,
                    table->row_count, rows, columns->pixel_count,
                    columns->are_reordered ? ", put into the order that their names say" : "",
                    columns->places[CSV_LABEL] + 1, splits, header, unused);
    else
        log_message(LOG_RUN, "%s: %zu %s, the file is column %zu, the label column %zu%s%s%s", table->input,
                    table->row_count, rows, columns->places[CSV_PATH] + 1, columns->places[CSV_LABEL] + 1, splits,
                    header, unused);
}

static bool names_file(const struct csv_set *set, size_t t, const struct csv_row *row)
{
    char path[PATH_BYTES];
    const int fd = copy_path(row, path) ? open_file(set->folders[t], path) : -1;

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Argument of value_names_file: the table whose columns are examined. */
struct table_files { const struct csv_set *set; size_t table; };

/* Is the value the path of a file, or a number that is one but for its leading zeros? */
static bool value_names_file(void *arg, struct csv_text value)
{
    const struct table_files *const files = arg;
    const struct csv_row row = { .path = value };
    char path[PATH_BYTES], alike[NAME_MAX + 1];

    if (files->set->folders[files->table] < 0 || value.bytes == 0)
        return false;
    return names_file(files->set, files->table, &row) ||
           (csv_is_number(value) && copy_path(&row, path) &&
            find_alike(files->set->folders[files->table], path, alike, sizeof(alike)));
}

/* Remove a header row with unknown names ("id,breed"), which is recognised because its path does not exist, but that
 * of the next row does. */
static void drop_header(const struct csv_set *set, size_t t, struct csv_table *table)
{
    if (table->columns.has_header || table->row_count < 2 || names_file(set, t, &table->rows[0]) ||
        !names_file(set, t, &table->rows[1]))
        return;
    memmove(table->rows, table->rows + 1, (table->row_count - 1) * sizeof(*table->rows));
    table->row_count--;
    table->columns.has_header = true;
}

static int read_table(struct csv_set *set, size_t t)
{
    const struct convert_options *const options = set->options;
    struct table_files files = { set, t };
    const struct csv_choice choice = {
        .label = options->label_column, .path = options->path_column, .split = options->split_column,
        .pixels = options->pixels_column, .needs_named_label = set->metadata != NULL, .names_file = value_names_file,
        .arg = &files,
    };
    struct csv_table *const table = &set->tables[set->table_count++];
    char *const folder = images_folder_of(set, set->inputs[t]);

    if (folder != NULL)
        set->folders[t] = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    int rc = csv_table_read(table, set->inputs[t], &choice, options->interrupted, set->images.stop);
    if (rc == -ENOMSG)
        rc = t == 0 ? -ENODATA : refuse(set, table, "has no column with the name of a label, as that of the training "
                                        "set has");
    if (rc == 0 && table->columns.pixel_count == 0 && set->folders[t] < 0)
        rc = open_folder(set, t);
    if (rc < 0)
        return rc;
    if (table->columns.pixel_count == 0)
        drop_header(set, t, table);
    report_columns(table);
    return 0;
}

static int read_tables(struct csv_set *set)
{
    for (size_t t = 0; t < set->input_count; t++) {
        const int rc = read_table(set, t);
        if (rc < 0)
            return rc;
        if (set->tables[t].columns.pixel_count != set->tables[0].columns.pixel_count)
            return refuse(set, &set->tables[t], "has different columns than the first table");
    }
    return 0;
}

/* ---- splits ---- */

static void add_part(struct csv_set *set, size_t t, size_t first, size_t count)
{
    struct csv_table *const part = &set->parts[set->part_count];

    set->part_tables[set->part_count++] = t;
    *part = set->tables[t];
    part->rows += first;
    part->row_count = count;
}

static int compare_rows(const void *a, const void *b)
{
    const struct csv_row *const one = a, *const other = b;
    if (one->split != other->split)
        return one->split < other->split ? -1 : 1;
    return (one->pixel_row > other->pixel_row) - (one->pixel_row < other->pixel_row);
}

/* Divide a table into its splits: training, validation, test. Without validation rows, the test rows are used for
 * validation. Unlabelled rows are left out. */
static int part_table(struct csv_set *set)
{
    struct csv_table *const table = &set->tables[0];
    size_t counts[SPLIT_UNLABELLED + 1] = { 0 }, first = 0;

    qsort(table->rows, table->row_count, sizeof(*table->rows), compare_rows);
    for (size_t i = 0; i < table->row_count; i++)
        counts[table->rows[i].split]++;
    if (counts[SPLIT_TRAIN] == 0)
        return refuse(set, table, "its column of splits has no row to train on; --split-column=none takes all rows");
    for (int split = SPLIT_TRAIN; split <= SPLIT_TEST; split++) {
        if (counts[split] > 0)
            add_part(set, 0, first, counts[split]);
        first += counts[split];
    }
    log_message(LOG_RUN, "%s: %zu rows are for training, %zu for validation, %zu for testing%s, %zu without a class",
                table->input, counts[SPLIT_TRAIN], counts[SPLIT_VALIDATION], counts[SPLIT_TEST],
                counts[SPLIT_VALIDATION] == 0 && counts[SPLIT_TEST] > 0 ? " (used for validation)" : "",
                counts[SPLIT_UNLABELLED]);
    return 0;
}

/* The split that folders in the path name; the last such folder counts. */
static enum split split_of_path(struct csv_text path)
{
    enum split split = SPLIT_UNSAID;
    size_t begin = 0;

    for (size_t i = 0; i < path.bytes; i++) {
        if (path.text[i] != '/' && path.text[i] != '\\')
            continue;
        const struct split_name name = split_name_read(path.text + begin, i - begin);
        split = name.is_whole ? name.split : split;
        begin = i + 1;
    }
    return split;
}

/* If every path in the only table of metadata has a folder of a split, these are the splits of the rows. */
static bool take_path_splits(struct csv_set *set)
{
    struct csv_table *const table = &set->tables[0];
    bool has_train = false;

    if (set->metadata == NULL || set->table_count > 1 || set->options->split_column != NULL)
        return false;
    for (size_t i = 0; i < table->row_count; i++) {
        table->rows[i].split = split_of_path(table->rows[i].path);
        has_train |= table->rows[i].split == SPLIT_TRAIN;
        if (table->rows[i].split == SPLIT_UNSAID)
            return false;
    }
    return has_train;
}

/* If there are two tables, their columns of splits must agree with them. */
static int check_splits(const struct csv_set *set, size_t t)
{
    const struct csv_table *const table = &set->tables[t];
    const bool has_splits = table->columns.places[CSV_SPLIT] != CSV_NO_COLUMN;

    for (size_t i = 0; i < table->row_count && has_splits; i++)
        if ((table->rows[i].split == SPLIT_TRAIN) != (t == 0) || table->rows[i].split == SPLIT_UNLABELLED)
            return convert_fail(set->images.stop, EXIT_CODE_USAGE, -EINVAL, "%s: line %" PRIu64 ": is for %s by its "
                                "column of splits, but the table is the %s set: give one table, or "
                                "--split-column=none", table->input, table->rows[i].line,
                                split_text(table->rows[i].split), split_names[t]);
    return 0;
}

static int find_parts(struct csv_set *set)
{
    if (set->table_count == 1 && (set->tables[0].columns.places[CSV_SPLIT] != CSV_NO_COLUMN || take_path_splits(set)))
        return part_table(set);
    for (size_t t = 0; t < set->table_count; t++) {
        const int rc = check_splits(set, t);
        if (rc < 0)
            return rc;
        add_part(set, t, 0, set->tables[t].row_count);
    }
    return 0;
}

/* Refuse labels that are different in every row: they are not classes. */
static int check_ids(struct csv_set *set, uint32_t class_count)
{
    const struct csv_table *const train = &set->parts[0];
    size_t distinct;

    if (csv_classes_count(train, class_count, &distinct) < 0)
        return convert_fail(set->images.stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the classes");
    if (distinct < train->row_count || distinct < IDS_LEAST || set->options->label_column != NULL)
        return 0;
    return convert_fail(set->images.stop, EXIT_CODE_USAGE, -EINVAL, "%s: column %zu has another label in each row, as "
                        "an id has: choose the column of the classes with --label-column", train->input,
                        train->columns.places[CSV_LABEL] + 1);
}

/* Report training images in folders that are called test or validation, unless a column or an option gives the
 * splits. */
static void report_split_folders(const struct csv_set *set)
{
    const struct csv_table *const train = &set->parts[0];
    const struct csv_row *first = NULL;
    size_t count = 0;

    if (train->columns.places[CSV_SPLIT] != CSV_NO_COLUMN || set->options->split_column != NULL || set->part_count > 1)
        return;
    for (size_t i = 0; i < train->row_count; i++) {
        const enum split split = split_of_path(train->rows[i].path);
        if (split != SPLIT_VALIDATION && split != SPLIT_TEST)
            continue;
        first = first != NULL ? first : &train->rows[i];
        count++;
    }
    if (count > 0)
        log_message(LOG_RUN, "%s: %zu image%s trained on, as there is no column of splits, in folders called %s and "
                    "the like, such as %.*s (line %" PRIu64 "): add a column split with train, validation and test, "
                    "or give --split-column=none", train->input, count, count == 1 ? " is" : "s are",
                    split_text(split_of_path(first->path)),
                    (int)(first->path.bytes < PATH_SHOWN ? first->path.bytes : PATH_SHOWN), first->path.text,
                    first->line);
}

/* ---- repeated images ---- */

static int shown(struct csv_text text, size_t most)
{
    return (int)(text.bytes < most ? text.bytes : most);
}

static int refuse_two_classes(const struct csv_set *set, const struct repeats *repeats)
{
    const struct csv_row *const a = repeats->first.entry, *const b = repeats->second.entry;

    return convert_fail(set->images.stop, EXIT_CODE_DATA, -EBADMSG, "%s: line %" PRIu64 ": %.*s has the class "
                        "'%.*s', but '%.*s' in line %" PRIu64 " of %s, where it is %.*s: an image has one class, keep "
                        "one row of it", set->parts[repeats->first.split].input, a->line, shown(a->path, PATH_SHOWN),
                        a->path.text, shown(a->label, 200), a->label.text, shown(b->label, 200), b->label.text, b->line,
                        set->parts[repeats->second.split].input, shown(b->path, PATH_SHOWN), b->path.text);
}

static void report_same(const struct csv_set *set, const struct repeats *repeats)
{
    const struct csv_row *const one = repeats->first.entry, *const other = repeats->second.entry;

    if (repeats->count > 0)
        log_message(LOG_RUN, "%s: %zu row%s an image and class that another row has, such as lines %" PRIu64
                    " and %" PRIu64 ": it counts as often as it is there", set->parts[repeats->first.split].input,
                    repeats->count, repeats->count == 1 ? " repeats" : "s repeat", one->line, other->line);
}

static void report_two_sets(const struct csv_set *set, const struct repeats *repeats)
{
    const struct csv_row *const one = repeats->first.entry, *const other = repeats->second.entry;
    const size_t part = repeats->first.split, other_part = repeats->second.split;

    if (repeats->count > 0)
        log_message(LOG_RUN, "%zu image%s in two sets, such as %.*s for %s (%s, line %" PRIu64 ") and %s (%s, "
                    "line %" PRIu64 "): what is trained on cannot test", repeats->count,
                    repeats->count == 1 ? " is" : "s are", shown(one->path, PATH_SHOWN), one->path.text,
                    split_names[part], set->parts[part].input, one->line, split_names[other_part],
                    set->parts[other_part].input, other->line);
}

static struct listed_image *list_images(const struct csv_set *set, size_t *count_out)
{
    size_t room = 0, count = 0;

    for (size_t part = 0; part < set->part_count; part++)
        room += set->parts[part].row_count;
    struct listed_image *const images = calloc(room + 1, sizeof(*images));
    for (size_t part = 0; part < set->part_count && images != NULL; part++) {
        for (size_t i = 0; i < set->parts[part].row_count; i++) {
            const struct csv_row *const row = &set->parts[part].rows[i];
            if (!row->is_used)
                continue;
            images[count] = (struct listed_image){ row->identity, row->class, (uint32_t)part, count, row };
            count++;
        }
    }
    *count_out = count;
    return images;
}

/* Refuse an image file that occurs with two classes, and report other repeated files. Files are compared, not paths,
 * which may be written differently or be links. To be called after describe_files. */
static int check_repeats(const struct csv_set *set)
{
    struct image_repeats repeats;
    size_t count;
    struct listed_image *const images = list_images(set, &count);

    if (images == NULL)
        return convert_fail(set->images.stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the paths");
    image_repeats_find(images, count, &repeats);
    free(images);
    if (repeats.other_class.count > 0)
        return refuse_two_classes(set, &repeats.other_class);
    report_same(set, &repeats.same);
    report_two_sets(set, &repeats.other_split);
    return 0;
}

/* ---- images of a folder with metadata ---- */

/* The identities of the files of all rows, sorted; to be freed. NULL if out of memory. */
static struct file_identity *list_identities(const struct csv_set *set, size_t *count_out)
{
    size_t room = 0, count = 0;

    for (size_t part = 0; part < set->part_count; part++)
        room += set->parts[part].row_count;
    struct file_identity *const files = calloc(room + 1, sizeof(*files));
    for (size_t part = 0; part < set->part_count && files != NULL; part++)
        for (size_t i = 0; i < set->parts[part].row_count; i++)
            files[count++] = set->parts[part].rows[i].identity;
    if (count > 0)
        qsort(files, count, sizeof(*files), file_identity_compare);
    *count_out = count;
    return files;
}

static void report_missing_rows(const struct csv_set *set, const struct image_list *list,
                                const struct file_identity *files, size_t count)
{
    const struct image_file *first = NULL;
    size_t missing = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct image_file *const file = &list->files[i];
        if (file->is_folder ||
            bsearch(&file->identity, files, count, sizeof(*files), file_identity_compare) != NULL)
            continue;
        first = first != NULL ? first : file;
        missing++;
    }
    if (missing > 0)
        log_message(LOG_RUN, "%s: left out %zu image%s that no %s lists, such as %s", set->metadata->folder, missing,
                    missing == 1 ? "" : "s", strrchr(set->inputs[0], '/') + 1, image_list_path(list, first));
}

/* Report images of the folder that the tables do not list. */
static int report_unlisted(const struct csv_set *set)
{
    struct image_choice choice;
    struct image_list list = { 0 };
    struct image_folder tree = { .choice = &choice, .list = &list, .interrupted = set->options->interrupted };
    size_t count;
    struct file_identity *const files = list_identities(set, &count);
    const int fd = open(set->metadata->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    image_choice_begin(&choice, IMAGE_CHOICE_STORED, 0);
    int rc = files == NULL ? -ENOMEM : fd < 0 ? -errno : image_folder_walk(&tree, fd);
    progress_end(&choice.progress);
    image_list_sort(&list);
    if (rc == 0)
        report_missing_rows(set, &list, files, count);
    else if (rc != -ECANCELED)
        convert_fail(set->images.stop, EXIT_CODE_DATA, rc, "%s: cannot look at its images: %s", set->metadata->folder,
                     exit_cause(rc));
    if (fd >= 0)
        close(fd);
    free(files);
    image_list_release(&list);
    image_choice_release(&choice);
    return rc;
}

static int compare_name(const void *text, const void *element)
{
    const struct csv_text *const wanted = text;
    const char *const name = *(char *const *)element;
    const int order = strncmp(wanted->text, name, wanted->bytes);
    return order != 0 ? order : -(name[wanted->bytes] != '\0');
}

/* Is the image in a folder called like another class than that of the row? */
static bool is_in_other_class(const struct image_layout *classes, const struct csv_row *row)
{
    size_t end = row->path.bytes, begin;

    while (end > 0 && row->path.text[end - 1] != '/')
        end--;
    for (begin = end > 0 ? end - 1 : 0; begin > 0 && row->path.text[begin - 1] != '/';)
        begin--;
    if (end == 0)
        return false;
    const struct csv_text folder = { row->path.text + begin, end - 1 - begin };
    char **const found = bsearch(&folder, classes->class_names, classes->class_count, sizeof(char *), compare_name);
    return found != NULL && (uint32_t)(found - classes->class_names) != row->class;
}

/* Report rows whose class is not that of the folder that the image is in. */
static void report_folders(const struct csv_set *set)
{
    const struct image_layout *const classes = &set->images.layout;
    const struct csv_row *first = NULL;
    size_t count = 0, first_part = 0;

    for (size_t part = 0; part < set->part_count && classes->class_names != NULL; part++)
        for (size_t i = 0; i < set->parts[part].row_count; i++) {
            if (!is_in_other_class(classes, &set->parts[part].rows[i]) || count++ > 0)
                continue;
            first = &set->parts[part].rows[i];
            first_part = part;
        }
    if (count > 0)
        log_message(LOG_RUN, "%s: %zu image%s in a folder called like another class, such as %.*s, which has the class "
                    "%s (line %" PRIu64 "): using the table (--folders-are-classes takes the folders of 'folder')",
                    set->parts[first_part].input, count, count == 1 ? " is" : "s are", shown(first->path, PATH_SHOWN),
                    first->path.text, classes->class_names[first->class], first->line);
}

static int describe(struct csv_set *set, struct conversion *conversion)
{
    const struct csv_label_choice choice = { "--label-column", set->options->label_column != NULL };
    struct image_layout *classes = &set->images.layout;

    int rc = read_tables(set);
    if (rc == 0)
        rc = find_parts(set);
    if (rc == 0)
        rc = csv_classes_find(set->parts, set->part_count, &choice, set->options->interrupted, set->images.stop,
                              &classes->class_names, &classes->class_count);
    if (rc == 0)
        rc = check_ids(set, classes->class_count);
    if (rc < 0)
        return rc;
    if (classes->class_count < 2)
        return refuse(set, &set->tables[0], "all rows have the same class");
    if (set->tables[0].columns.pixel_count > 0)
        return describe_pixels(set, conversion);
    report_split_folders(set);
    rc = describe_files(set, conversion);
    report_folders(set);
    if (rc == 0)
        rc = check_repeats(set);
    return rc == 0 && set->metadata != NULL ? report_unlisted(set) : rc;
}

static int prepare_set(struct csv_set *set, const struct convert_options *options, struct stop *stop,
                       struct conversion *conversion)
{
    for (size_t t = 0; t < TABLES_MAX; t++)
        set->folders[t] = -1;
    set->options = options;
    set->images.input = set->input_count == 1 ? set->inputs[0] : "the tables";
    set->images.stop = stop;
    set->images.read = read_image;
    set->images.arg = set;
    return describe(set, conversion);
}

static int csv_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct csv_set *const set = conversion->state;

    set->inputs = options->inputs;
    set->input_count = options->input_count;
    conversion->origin = "rows of a table";
    return prepare_set(set, options, stop, conversion);
}

static void release_set(struct csv_set *set)
{
    for (size_t t = 0; t < TABLES_MAX; t++) {
        csv_table_release(&set->tables[t]);
        if (set->folders[t] >= 0)
            close(set->folders[t]);
    }
    image_set_release(&set->images);
}

static void csv_release(struct conversion *conversion)
{
    release_set(conversion->state);
}

int csv_set_open(struct csv_set **set_out, const struct metadata *metadata, const struct convert_options *options,
                 struct stop *stop, struct conversion *conversion)
{
    struct csv_set *const set = calloc(1, sizeof(*set));

    *set_out = set;
    if (set == NULL)
        return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory");
    set->inputs = metadata->tables;
    set->input_count = metadata->count;
    set->metadata = metadata;
    conversion->origin = "images in folders with metadata";
    return prepare_set(set, options, stop, conversion);
}

void csv_set_close(struct csv_set *set)
{
    if (set != NULL)
        release_set(set);
    free(set);
}

const struct converter convert_csv = {
    .name = "csv",
    .summary = "a table of images: each row has the class and either the path of a JPEG or PNG, relative to the table, "
               "or all pixels; columns are found by their names in the first row and their values (path, file, image, "
               "...; label, class, category, ...; split, usage, ...)",
    .inputs = "TRAIN [VALIDATION]",
    .input_count_least = 1,
    .input_count_most = 2,
    .takes = CONVERT_IMAGES | CONVERT_COLUMNS,
    .takes_pixels = true,
    .state_bytes = sizeof(struct csv_set),
    .prepare = csv_prepare,
    .release = csv_release,
};
