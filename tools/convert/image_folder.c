/* The images of a data set: chooses the files that are images, lists them, and walks through a folder. Called by the
 * main thread of the programs; the list is read by any thread. */
#include "tools/convert/image_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/images/image_memory.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"

/* ---- which files are images ---- */

#define HEAD_BYTES 4096u        /* enough for nearly every header */
#define REFUSED_INLINE 5u       /* the most refused files that are printed on one line; of more, each has a line */

static const char *const image_names[] = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".avif", ".heic", ".heif",
    ".hif", ".jp2", ".jxl",
    ".ppm", ".pgm", ".pbm", ".pnm", ".pam",
};
static const char *const decoded_names[] = { ".jpg", ".jpeg", ".png" };
static const char *const label_file_names[] = { ".cls", ".label" };
static const char *const label_text_names[] = { ".cls.txt", ".class.txt", ".label.txt", ".cls.json", ".label.json" };
static const char *const note_file_names[] = { ".json", ".txt" };
static const char *const archive_names[] = { ".tar", ".tgz", ".zip", ".7z", ".parquet" };

static bool has_ending(const char *path, const char *const *ends, size_t count)
{
    const char *end = strrchr(path, '.');
    size_t i = 0;

    while (end != NULL && i < count && strcasecmp(end, ends[i]) != 0)
        i++;
    return end != NULL && i < count;
}

/* Is it a file with a label: "000.cls", "000.cls.txt"? */
static bool is_label_file(const char *path)
{
    const size_t bytes = strlen(path);
    for (size_t i = 0; i < sizeof(label_text_names) / sizeof(label_text_names[0]); i++) {
        const size_t end = strlen(label_text_names[i]);
        if (bytes > end && strcasecmp(path + bytes - end, label_text_names[i]) == 0)
            return true;
    }
    return has_ending(path, label_file_names, sizeof(label_file_names) / sizeof(label_file_names[0]));
}

bool image_choice_name(const char *path)
{
    return has_ending(path, image_names, sizeof(image_names) / sizeof(image_names[0]));
}

/* Is it a folder in which operating systems or network drives store thumbnails, deleted files, old versions or
 * metadata? */
static bool is_system_folder(const char *name, size_t bytes)
{
    static const char *const names[] = {
        "__MACOSX", "@eaDir", "@tmp", "@Recycle", "@Recently-Snapshot", "@__thumb", "#recycle", "#snapshot",
        "~snapshot", "$RECYCLE.BIN", "System Volume Information", "lost+found", "Network Trash Folder",
        "Temporary Items",
    };
    size_t i = 0;

    while (i < sizeof(names) / sizeof(names[0]) &&
           (strlen(names[i]) != bytes || strncasecmp(names[i], name, bytes) != 0))
        i++;
    return i < sizeof(names) / sizeof(names[0]);
}

/* Count a skipped folder once, although all of its files in an archive are reported: they are consecutive there. */
static void note_system_folder(struct image_choice *choice, const char *parent, const char *path, size_t bytes)
{
    char found[sizeof(choice->system_last)];

    snprintf(found, sizeof(found), "%s%s%.*s", parent, parent[0] != '\0' ? "/" : "", (int)bytes, path);
    if (strcmp(found, choice->system_last) == 0)
        return;
    strcpy(choice->system_last, found);
    if (choice->system_count++ == 0 || strcmp(found, choice->system_first) < 0)
        strcpy(choice->system_first, found);
}

bool image_choice_skips(struct image_choice *choice, const char *parent, const char *path)
{
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        const char *const end = part + strcspn(part, "/");
        if (*part == '.')
            return true;
        if (is_system_folder(part, (size_t)(end - part))) {
            note_system_folder(choice, parent, path, (size_t)(end - path));
            return true;
        }
    }
    return false;
}

void image_choice_refuse(struct image_choice *choice, const char *path, const char *problem)
{
    choice->refused_count++;
    if (choice->refused_listed < IMAGE_CHOICE_LISTED &&
        asprintf(&choice->refused[choice->refused_listed], "%s: %s", path, problem) >= 0)
        choice->refused_listed++;
}

/* Keep the paths of the first tables, in bytewise order: they may contain the classes of the images. */
static void note_table(struct image_choice *choice, const char *path)
{
    static const char *const table_names[] = { ".csv", ".tsv", ".jsonl" };
    size_t at = IMAGE_CHOICE_TABLES;

    if (!has_ending(path, table_names, 3) || strlen(path) >= sizeof(choice->tables[0]))
        return;
    while (at > 0 && (choice->tables[at - 1][0] == '\0' || strcmp(path, choice->tables[at - 1]) < 0))
        at--;
    if (at == IMAGE_CHOICE_TABLES)
        return;
    memmove(choice->tables[at + 1], choice->tables[at], (IMAGE_CHOICE_TABLES - 1 - at) * sizeof(choice->tables[0]));
    strcpy(choice->tables[at], path);
}

static void leave_out(struct image_choice *choice, const char *path, const char *problem)
{
    struct image_choice_kind *kind = choice->left_out;

    while (kind < choice->left_out + IMAGE_CHOICE_KINDS - 1 && kind->count > 0 && strcmp(kind->problem, problem) != 0)
        kind++;
    choice->left_out_count++;
    note_table(choice, path);
    choice->label_file_count += is_label_file(path);
    if ((has_ending(path, archive_names, 5) || strcasestr(path, ".tar.") != NULL) &&
        (choice->archive[0] == '\0' || strcmp(path, choice->archive) < 0))
        snprintf(choice->archive, sizeof(choice->archive), "%s", path);
    choice->note_file_count += has_ending(path, note_file_names, 2);
    if (kind->count++ > 0 && strcmp(path, kind->first) >= 0)
        return;
    kind->problem = problem;
    snprintf(kind->first, sizeof(kind->first), "%s", path);
}

/* Sorts the most frequent kind first. */
static int kind_compare(const void *a, const void *b)
{
    const struct image_choice_kind *const left = a, *const right = b;

    if (left->count != right->count)
        return left->count < right->count ? 1 : -1;
    return left->count > 0 ? strcmp(left->problem, right->problem) : 0;
}

static void note_turned(struct image_choice *choice, const char *path, const struct image_header *header)
{
    if (header->orientation > 1 && (choice->turned_count++ == 0 || strcmp(path, choice->turned) < 0))
        snprintf(choice->turned, sizeof(choice->turned), "%.*s", (int)sizeof(choice->turned) - 1, path);
}

static void note_size(struct image_choice *choice, const struct image_header *header)
{
    if (choice->image_count++ == 0)
        choice->common = *header;
    else if (choice->common.width != header->width || choice->common.height != header->height ||
             choice->common.channels != header->channels)
        choice->common.width = choice->common.height = choice->common.channels = 0;
}

/* Parse the header from the first `bytes` bytes. Returns the same as image_header_read, or -ENOMEM, or an error of
 * `read`. */
static int read_header(struct image_choice *choice, size_t bytes, image_head_read *read, void *arg,
                       struct image_header *header_out, const char **problem_out)
{
    if (bytes > choice->head_room || choice->head == NULL) {
        uint8_t *head = realloc(choice->head, bytes + 1);
        if (head == NULL)
            return -ENOMEM;
        choice->head = head;
        choice->head_room = bytes;
    }
    const int rc = read(arg, choice->head, bytes);
    return rc < 0 ? rc : image_header_read(choice->head, bytes, header_out, problem_out);
}

int image_head_read_file(void *fd, uint8_t *out, size_t bytes)
{
    return file_read_at(*(const int *)fd, 0, out, bytes);
}

void image_choice_begin(struct image_choice *choice, enum image_choice_rule rule, uint64_t files)
{
    *choice = (struct image_choice){ .rule = rule };
    progress_begin(&choice->progress, "looking at the input", "files", files);
}

void image_choice_count_bytes(struct image_choice *choice, uint64_t bytes)
{
    choice->counts_bytes = true;
    progress_begin_bytes(&choice->progress, "looking at the input", bytes);
}

/* Refuse or leave out a file that is neither JPEG nor PNG. */
static void note_other(struct image_choice *choice, const char *path, const char *problem)
{
    const bool is_refused = choice->rule == IMAGE_CHOICE_ALL ||
                            (choice->rule == IMAGE_CHOICE_STORED && image_choice_name(path));

    if (is_refused)
        image_choice_refuse(choice, path, problem);
    else
        leave_out(choice, path, problem);
}

void image_choice_too_large(struct image_choice *choice, const char *path)
{
    note_other(choice, path, "is over 63 MiB");
}

/* Read as much of the file as is needed for the header. Returns the same as read_header. */
static int find_header(struct image_choice *choice, uint64_t bytes, image_head_read *read, void *arg,
                struct image_header *header_out, const char **problem_out)
{
    const size_t most = bytes < IMAGE_BYTES_MAX ? (size_t)bytes : (size_t)IMAGE_BYTES_MAX;

    progress_add(&choice->progress, choice->counts_bytes ? 0 : 1);
    const int rc = read_header(choice, most < HEAD_BYTES ? most : HEAD_BYTES, read, arg, header_out, problem_out);
    return rc == -EAGAIN && most > HEAD_BYTES ? read_header(choice, most, read, arg, header_out, problem_out) : rc;
}

/* Why a conversion cannot use an image with this header; NULL if it can. */
static const char *unfit_text(const struct image_header *header, uint64_t bytes)
{
    if (bytes > IMAGE_BYTES_MAX)
        return "is over 63 MiB";
    return (uint64_t)header->width * header->height > IMAGE_PIXELS_MAX
               ? "has more than 64 Mi pixels by its header, which training refuses" : NULL;
}

/* Choose by the rule of conversions. */
static bool take_stored(struct image_choice *choice, const char *path, uint64_t bytes, int rc,
                        const struct image_header *header, const char *problem)
{
    const char *const unfit = rc == 0 ? unfit_text(header, bytes) : NULL;

    if (rc == 0 && unfit == NULL) {
        note_size(choice, header);
        return true;
    }
    if (unfit != NULL)
        image_choice_refuse(choice, path, unfit);
    else if (rc == -EAGAIN)
        image_choice_refuse(choice, path, "is cut short inside its header");
    else if (rc != -EBADMSG || problem == NULL)
        image_choice_refuse(choice, path, strerror(-rc));
    else
        note_other(choice, path, problem);
    return false;
}

/* Choose by the rule of predictions: accept files that begin like a JPEG or PNG, or have such a name; the decoder
 * reports problems. */
static bool take_shown(struct image_choice *choice, const char *path, int rc, const char *problem)
{
    const bool is_other = rc == -EBADMSG && problem != NULL &&
                          !has_ending(path, decoded_names, sizeof(decoded_names) / sizeof(decoded_names[0]));

    if (is_other)
        note_other(choice, path, problem);
    choice->image_count += !is_other;
    return !is_other;
}

int image_choice_take(struct image_choice *choice, const char *path, uint64_t bytes, image_head_read *read, void *arg,
                     bool *is_image_out)
{
    struct image_header header;
    const char *problem = NULL;

    const int rc = find_header(choice, bytes, read, arg, &header, &problem);
    if (rc == -ENOMEM)
        return rc;
    if (rc == 0)
        note_turned(choice, path, &header);
    *is_image_out = choice->rule == IMAGE_CHOICE_SHOWN ? take_shown(choice, path, rc, problem)
                                                       : take_stored(choice, path, bytes, rc, &header, problem);
    return 0;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* List the refused files on one line: "a: is empty; b: is a BMP". False if that is too long. */
static bool join_refused(const struct image_choice *choice, char *text, size_t text_size)
{
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < choice->refused_listed && length < text_size; i++)
        length += (size_t)snprintf(text + length, text_size - length, "%s%s", i > 0 ? "; " : "", choice->refused[i]);
    return length < text_size && choice->refused_count <= REFUSED_INLINE &&
           choice->refused_listed == choice->refused_count;
}

const char *image_choice_list_refused(struct image_choice *choice, const char *input, char *text, size_t text_size)
{
    qsort(choice->refused, choice->refused_listed, sizeof(choice->refused[0]), compare_texts);
    if (join_refused(choice, text, text_size))
        return text;
    for (size_t i = 0; i < choice->refused_listed; i++)
        log_message(LOG_PROBLEM, "%s: %s", input, choice->refused[i]);
    if (choice->refused_count > choice->refused_listed)
        log_message(LOG_PROBLEM, "%s: and %" PRIu64 " more", input, choice->refused_count - choice->refused_listed);
    text[0] = '\0';
    return text;
}

static int fail_refused(struct image_choice *choice, const char *input, struct stop *stop)
{
    const bool is_one = choice->refused_count == 1;
    const char *const hint = choice->refused_hint;
    char text[1500];

    image_choice_list_refused(choice, input, text, sizeof(text));
    stop_fail(stop, EXIT_CODE_DATA, "%s: %" PRIu64 " file%s cannot be used: remove or replace %s, or give "
              "--skip-unreadable to leave %s out%s%s%s%s%s", input, choice->refused_count, is_one ? "" : "s",
              is_one ? "it" : "them", is_one ? "it" : "them", hint != NULL ? " (" : "",
              hint != NULL ? hint : "", hint != NULL ? ")" : "", text[0] != '\0' ? ": " : "", text);
    return -EBADMSG;
}

/* Report the refused files, which are left out: a line for each of the first ones. */
static void report_skipped(struct image_choice *choice, const char *input)
{
    const uint64_t count = choice->refused_count;

    qsort(choice->refused, choice->refused_listed, sizeof(choice->refused[0]), compare_texts);
    for (size_t i = 0; i < choice->refused_listed; i++)
        log_message(LOG_RUN, "left out %s: %s", input, choice->refused[i]);
    if (count > choice->refused_listed)
        log_message(LOG_RUN, "left out %" PRIu64 " more of %s", count - choice->refused_listed, input);
    if (choice->refused_hint != NULL)
        log_message(LOG_RUN, "%s: %s", input, choice->refused_hint);
}

/* List the kinds of files that were left out: ": 3 a BMP (the first x.bmp), 1 no image (notes.txt)". */
static void list_kinds(const struct image_choice *choice, char *text, size_t text_size)
{
    static const char is[] = "is ";
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < IMAGE_CHOICE_KINDS && choice->left_out[i].count > 0 && length < text_size; i++) {
        const struct image_choice_kind *const kind = &choice->left_out[i];
        const char *const name = i + 1 == IMAGE_CHOICE_KINDS ? "of other kinds"
                                 : strncmp(kind->problem, is, sizeof(is) - 1) == 0 ? kind->problem + sizeof(is) - 1
                                                                                   : kind->problem;
        length += (size_t)snprintf(text + length, text_size - length, "%s%" PRIu64 " %s (%s%s)", i == 0 ? ": " : ", ",
                                   kind->count, name, kind->count > 1 ? "the first " : "", kind->first);
    }
}

static void report_turned(const struct image_choice *choice, const char *input)
{
    const bool is_one = choice->turned_count == 1;

    log_message(LOG_RUN, "%s: %" PRIu64 " image%s an EXIF orientation (%s%s): %s", input, choice->turned_count,
                is_one ? " has" : "s have", is_one ? "" : "the first ", choice->turned,
                choice->orientation == ORIENTATION_LOST
                    ? "it is lost where an image is encoded again; --upright turns the pixels"
                    : "training and prediction apply it with augment.orientation = exif only; --upright turns the pixels");
}

static void report_system(const struct image_choice *choice, const char *input)
{
    const bool is_one = choice->system_count == 1;

    log_message(LOG_RUN, "%s: skipped %" PRIu64 " folder%s of a file server or an operating system (%s%s)", input,
                choice->system_count, is_one ? "" : "s", is_one ? "" : "the first ", choice->system_first);
}

void image_choice_report(struct image_choice *choice, const char *input)
{
    char kinds[1024];

    progress_end(&choice->progress);
    if (choice->system_count > 0)
        report_system(choice, input);
    if (choice->left_out_count == 0)
        return;
    qsort(choice->left_out, IMAGE_CHOICE_KINDS - 1, sizeof(choice->left_out[0]), kind_compare);
    list_kinds(choice, kinds, sizeof(kinds));
    log_message(LOG_RUN, "%s: left out %" PRIu64 " file%s%s", input, choice->left_out_count,
                choice->left_out_count == 1 ? " that is no JPEG or PNG" : "s that are no JPEG or PNG", kinds);
}

int image_choice_end(struct image_choice *choice, const char *input, struct stop *stop)
{
    image_choice_report(choice, input);
    if (choice->turned_count > 0 && choice->orientation != ORIENTATION_TURNED)
        report_turned(choice, input);
    if (choice->refused_count > 0 && (!choice->skips_refused || choice->image_count == 0))
        return fail_refused(choice, input, stop);
    if (choice->refused_count > 0)
        report_skipped(choice, input);
    return 0;
}

void image_choice_release(struct image_choice *choice)
{
    progress_end(&choice->progress);
    free(choice->head);
    for (size_t i = 0; i < choice->refused_listed; i++)
        free(choice->refused[i]);
    *choice = (struct image_choice){ 0 };
}

/* ---- the list ---- */

#define FILES_FIRST 1024u
#define NAMES_FIRST 65536u

/* Grow a block to at least `wanted` items; its size is at least doubled. NULL if out of memory. */
static void *grown(void *block, size_t item_bytes, size_t wanted, size_t first, size_t *room)
{
    size_t items = *room > 0 ? *room : first, bytes;

    if (wanted <= *room)
        return block;
    while (items < wanted) {
        if (__builtin_mul_overflow(items, 2, &items))
            return NULL;
    }
    if (__builtin_mul_overflow(items, item_bytes, &bytes))
        return NULL;
    void *larger = realloc(block, bytes);
    if (larger != NULL)
        *room = items;
    return larger;
}

int image_list_add(struct image_list *list, const char *path, const struct image_file *file)
{
    const size_t bytes = strlen(path) + 1;

    struct image_file *files = grown(list->files, sizeof(*files), list->count + 1, FILES_FIRST, &list->room);
    if (files == NULL)
        return -ENOMEM;
    list->files = files;
    char *names = grown(list->names, 1, list->name_bytes + bytes, NAMES_FIRST, &list->name_room);
    if (names == NULL)
        return -ENOMEM;
    list->names = names;
    memcpy(names + list->name_bytes, path, bytes);
    files[list->count] = *file;
    files[list->count++].path = list->name_bytes;
    list->name_bytes += bytes;
    return 0;
}

const char *image_list_path(const struct image_list *list, const struct image_file *file)
{
    return list->names + file->path;
}

/* The order of bytes in paths: the end first, then "/", then all other bytes. */
static int rank_of(char byte)
{
    return byte == '\0' ? 0 : byte == '/' ? 1 : 2 + (unsigned char)byte;
}

static int compare_paths(const void *left, const void *right, void *names)
{
    const char *a = (const char *)names + ((const struct image_file *)left)->path;
    const char *b = (const char *)names + ((const struct image_file *)right)->path;

    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return rank_of(*a) - rank_of(*b);
}

void image_list_sort(struct image_list *list)
{
    if (list->count > 0)
        qsort_r(list->files, list->count, sizeof(*list->files), compare_paths, list->names);
}

void image_list_release(struct image_list *list)
{
    free(list->files);
    free(list->names);
    *list = (struct image_list){ 0 };
}

/* ---- walking a folder ---- */

static int visit_folder(struct image_folder *folder, int fd, size_t length, unsigned depth);

/* Handle a system error for the current path: add it to the refused files or, if a resource of the system is
 * exhausted, return the error. */
static int refuse_entry(struct image_folder *folder, int error)
{
    if (exit_code_of(-error, EXIT_CODE_DATA) != EXIT_CODE_DATA)
        return -error;
    image_choice_refuse(folder->choice, folder->path[0] != '\0' ? folder->path : ".", strerror(error));
    return 0;
}

static int add_file(struct image_folder *folder, int fd, const struct stat *stat)
{
    const uint64_t bytes = (uint64_t)stat->st_size;
    const struct image_file file = { .bytes = (uint32_t)bytes, .identity = file_identity_of(stat) };
    bool is_image;

    const int rc = image_choice_take(folder->choice, folder->path, bytes, image_head_read_file, &fd, &is_image);
    return rc == 0 && is_image ? image_list_add(folder->list, folder->path, &file) : rc;
}

static int add_folder(struct image_folder *folder, int fd, size_t length, unsigned depth)
{
    const struct image_file entry = { .is_folder = true };

    const int rc = image_list_add(folder->list, folder->path, &entry);
    return rc < 0 ? rc : visit_folder(folder, fd, length, depth + 1);
}

/* Visit the current path, which is open as fd. */
static int visit_entry(struct image_folder *folder, int fd, size_t length, unsigned depth)
{
    struct stat stat;

    if (fstat(fd, &stat) != 0)
        return refuse_entry(folder, errno);
    if (S_ISDIR(stat.st_mode))
        return add_folder(folder, fd, length, depth);
    if (S_ISREG(stat.st_mode))
        return add_file(folder, fd, &stat);
    image_choice_refuse(folder->choice, folder->path, "is not a regular file");
    return 0;
}

/* Open and visit an entry. Symbolic links are followed. Without O_NONBLOCK, opening a FIFO would block. */
static int open_entry(struct image_folder *folder, int directory_fd, const char *name, size_t length, unsigned depth)
{
    const size_t bytes = strlen(name);

    if (folder->interrupted != NULL && atomic_load(folder->interrupted))
        return -ECANCELED;
    if (length + bytes + 2 > sizeof(folder->path)) {
        image_choice_refuse(folder->choice, folder->path, "contains a path of over 4095 bytes");
        return 0;
    }
    if (length > 0)
        folder->path[length++] = '/';
    memcpy(folder->path + length, name, bytes + 1);
    const int fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return refuse_entry(folder, errno);
    const int rc = visit_entry(folder, fd, length + bytes, depth);
    close(fd);
    return rc;
}

static int visit_entries(struct image_folder *folder, DIR *entries, size_t length, unsigned depth)
{
    const struct dirent *entry;

    while ((errno = 0, entry = readdir(entries)) != NULL) {
        if (image_choice_skips(folder->choice, folder->path, entry->d_name))
            continue;               /* also skips "." and ".." */
        const int rc = open_entry(folder, dirfd(entries), entry->d_name, length, depth);
        folder->path[length] = '\0';
        if (rc < 0)
            return rc;
    }
    return errno != 0 ? refuse_entry(folder, errno) : 0;
}

/* Store the identity of the folder at its depth. False if the folder contains itself, through a link. */
static bool is_new(struct image_folder *folder, const struct stat *stat, unsigned depth)
{
    const struct file_identity identity = file_identity_of(stat);
    unsigned i = 0;

    while (i < depth && file_identity_compare(&folder->above[i], &identity) != 0)
        i++;
    folder->above[depth] = identity;
    return i == depth;
}

static int visit_folder(struct image_folder *folder, int fd, size_t length, unsigned depth)
{
    struct stat stat;

    if (depth > IMAGE_FOLDER_DEPTH_MAX) {
        image_choice_refuse(folder->choice, folder->path, "is more than 32 folders deep");
        return 0;
    }
    if (fstat(fd, &stat) != 0)
        return refuse_entry(folder, errno);
    if (!is_new(folder, &stat, depth)) {
        image_choice_refuse(folder->choice, folder->path, "is a link to one of its own parent folders");
        return 0;
    }
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *entries = own < 0 ? NULL : fdopendir(own);
    if (entries == NULL) {
        const int error = errno;
        if (own >= 0)
            close(own);
        return refuse_entry(folder, error);
    }
    const int rc = visit_entries(folder, entries, length, depth);
    closedir(entries);
    return rc;
}

int image_folder_walk(struct image_folder *folder, int fd)
{
    return visit_folder(folder, fd, 0, 0);
}
