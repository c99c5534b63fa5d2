/* Reads archives through libarchive. gzip is decompressed here by zlib instead, because it verifies the checksums,
 * and libarchive does not. Called by the main thread of the converters; archive_walk_read_at by any thread. */
#include "tools/convert/archive_walk.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "formats/html.h"
#include "stage/file/file.h"
#include "tools/convert/convert.h"

#define BUFFER_BYTES ((size_t)1 << 20)
#define TAR_BLOCK_BYTES 512u
/* Limits against decompression bombs: above the first GiB, the ratio must not be higher than deflate can reach. */
#define UNPACKED_BYTES_FREE ((uint64_t)1 << 30)
#define UNPACKED_RATIO_MAX 1032u

struct archive_walk {
    int fd;
    uint64_t file_bytes;
    const atomic_bool *interrupted;
    gzFile gzip;                /* decompresses the file for libarchive; NULL: the file is not gzip */
    uint64_t position;          /* position of the next block in the file */
    int read_error;             /* negative errno of the block that could not be read, or 0 */
    struct archive *library;    /* libarchive's handle; NULL once the walk has ended */
    locale_t names;             /* locale in which names are converted to UTF-8; 0: names are not converted */
    uint8_t *buffer;            /* the last block handed to libarchive */
    uint64_t buffer_offset;     /* position of that block in the file */
    size_t buffer_bytes;
    /* the current member */
    bool is_open, was_read, is_in_file;
    const uint8_t *pending;     /* the unread rest of the data that libarchive returned last */
    size_t pending_bytes;
    uint64_t unpacked_bytes;    /* sum over all members */
    int64_t end;                /* end of the last member in the unpacked stream */
    char path[ARCHIVE_PATH_MAX + 1];
    char problem[256];
};

static int walk_fail(struct archive_walk *walk, int rc, const char *problem)
{
    snprintf(walk->problem, sizeof(walk->problem), "%s", problem);
    return rc;
}

/* ---- the file, as libarchive reads it ---- */

/* gzread returns all bytes that it could decompress before it reports a truncated stream. */
static int gzip_error(gzFile gzip)
{
    int status;

    gzerror(gzip, &status);
    return status == Z_OK ? 0 : status == Z_MEM_ERROR ? -ENOMEM : status == Z_ERRNO && errno != 0 ? -errno : -EBADMSG;
}

static la_ssize_t read_gzip(struct archive_walk *walk)
{
    const int bytes = gzread(walk->gzip, walk->buffer, BUFFER_BYTES);

    walk->read_error = bytes > 0 ? 0 : gzip_error(walk->gzip);
    if (walk->read_error == -EBADMSG)
        walk_fail(walk, -EBADMSG, "its compressed data is damaged or cut short");
    return bytes;
}

static la_ssize_t read_plain(struct archive_walk *walk)
{
    size_t bytes = 0;

    walk->read_error = file_read_some(walk->fd, walk->position, walk->buffer, BUFFER_BYTES, &bytes);
    walk->buffer_offset = walk->position;
    walk->buffer_bytes = bytes;
    walk->position += bytes;
    return (la_ssize_t)bytes;
}

static la_ssize_t read_block(struct archive *library, void *arg, const void **block_out)
{
    struct archive_walk *const walk = arg;

    *block_out = walk->buffer;
    if (walk->interrupted != NULL && atomic_load(walk->interrupted))
        walk->read_error = -ECANCELED;
    const la_ssize_t bytes = walk->read_error < 0 ? -1 : walk->gzip != NULL ? read_gzip(walk) : read_plain(walk);
    if (walk->read_error == 0)
        return bytes;
    archive_set_error(library, -walk->read_error, "the file cannot be read");
    return -1;
}

static la_int64_t skip_block(struct archive *library, void *arg, la_int64_t wanted)
{
    struct archive_walk *const walk = arg;
    const uint64_t left = walk->position < walk->file_bytes ? walk->file_bytes - walk->position : 0;
    const uint64_t bytes = (uint64_t)wanted < left ? (uint64_t)wanted : left;

    (void)library;
    walk->position += bytes;
    return (la_int64_t)bytes;
}

static la_int64_t seek_block(struct archive *library, void *arg, la_int64_t offset, int whence)
{
    struct archive_walk *const walk = arg;
    const uint64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? walk->position : walk->file_bytes;

    (void)library;
    if (offset < 0 && (uint64_t)-offset > base)
        return ARCHIVE_FATAL;
    walk->position = base + (uint64_t)offset;
    return (la_int64_t)walk->position;
}

/* ---- opening ---- */

static int open_file(struct archive_walk *walk, const char *path)
{
    struct stat status;

    /* Without O_NONBLOCK opening a FIFO would block. */
    walk->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (walk->fd < 0 || fstat(walk->fd, &status) != 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return walk_fail(walk, -EISDIR, "is a folder: convert it with 'folder'");
    if (file_kind(status.st_mode) != NULL)
        return walk_fail(walk, -EINVAL, "is not a regular file");
    walk->file_bytes = (uint64_t)status.st_size;
    return 0;
}

static int open_gzip(struct archive_walk *walk, bool is_raw)
{
    static const uint8_t magic[] = { 0x1f, 0x8b };
    uint8_t head[256];
    size_t bytes;

    const int rc = file_read_some(walk->fd, 0, head, sizeof(head), &bytes);
    if (rc < 0)
        return rc;
    if (!is_raw && html_begins(head, bytes))
        return walk_fail(walk, -EBADMSG, "is HTML, not an archive: download it again");
    if (bytes < sizeof(magic) || memcmp(head, magic, sizeof(magic)) != 0)
        return 0;
    const int fd = fcntl(walk->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    walk->gzip = gzdopen(fd, "rb");
    if (walk->gzip == NULL) {
        close(fd);
        return -ENOMEM;
    }
    return gzbuffer(walk->gzip, BUFFER_BYTES) == 0 ? 0 : -ENOMEM;
}

static void support_formats(struct archive *library, bool is_raw)
{
    archive_read_support_filter_bzip2(library);
    archive_read_support_filter_xz(library);
    archive_read_support_filter_zstd(library);
    archive_read_support_filter_lz4(library);
    if (is_raw) {
        archive_read_support_format_raw(library);
        archive_read_support_format_empty(library);
        return;
    }
    archive_read_support_format_tar(library);
    /* Only with the directory at its end: read from the front, a zip archive that was truncated would seem complete. */
    archive_read_support_format_zip_seekable(library);
    archive_read_support_format_7zip(library);
    /* Several tar archives may be concatenated. This option also makes libarchive read the stream to its end, where
     * checksums are verified. */
    archive_read_set_format_option(library, "tar", "read_concatenated_archives", "1");
}

/* The error of libarchive as a negative errno; its text is put into walk->problem. */
static int library_fail(struct archive_walk *walk)
{
    const char *const said = archive_error_string(walk->library), *const text = said != NULL ? said : "";

    if (walk->read_error < 0)
        return walk->read_error;
    if (archive_errno(walk->library) == ENOMEM)
        return -ENOMEM;
    if (strstr(text, "Unrecognized archive format") != NULL)
        return walk_fail(walk, -EBADMSG, "is no archive of a known format (tar, zip, 7z), or a cut or damaged one");
    if (strstr(text, "ncrypt") != NULL)
        return walk_fail(walk, -EBADMSG, "is encrypted");
    snprintf(walk->problem, sizeof(walk->problem), *text != '\0' ? "is damaged or cut short (%s)"
                                                                 : "is damaged or cut short", text);
    return -EBADMSG;
}

static int open_library(struct archive_walk *walk, bool is_raw)
{
    walk->buffer = malloc(BUFFER_BYTES);
    walk->library = archive_read_new();
    if (walk->buffer == NULL || walk->library == NULL)
        return -ENOMEM;
    walk->names = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    support_formats(walk->library, is_raw);
    archive_read_set_read_callback(walk->library, read_block);
    archive_read_set_callback_data(walk->library, walk);
    if (walk->gzip == NULL) {
        archive_read_set_skip_callback(walk->library, skip_block);
        archive_read_set_seek_callback(walk->library, seek_block);
    }
    return archive_read_open1(walk->library) == ARCHIVE_OK ? 0 : library_fail(walk);
}

static int walk_open(struct archive_walk **walk_out, const char *path, const atomic_bool *interrupted, bool is_raw)
{
    struct archive_walk *const walk = calloc(1, sizeof(*walk));

    *walk_out = walk;
    if (walk == NULL)
        return -ENOMEM;
    walk->interrupted = interrupted;
    int rc = open_file(walk, path);
    if (rc == 0)
        rc = open_gzip(walk, is_raw);
    return rc == 0 ? open_library(walk, is_raw) : rc;
}

int archive_walk_open(struct archive_walk **walk_out, const char *path, const atomic_bool *interrupted)
{
    const int rc = walk_open(walk_out, path, interrupted, false);
    return rc == -EISDIR || rc == -EINVAL ? -EBADMSG : rc;
}

void archive_walk_end(struct archive_walk *walk)
{
    if (walk->library != NULL)
        archive_read_free(walk->library);
    if (walk->gzip != NULL)
        gzclose_r(walk->gzip);
    if (walk->names != (locale_t)0)
        freelocale(walk->names);
    free(walk->buffer);
    walk->library = NULL;
    walk->gzip = NULL;
    walk->names = (locale_t)0;
    walk->buffer = NULL;
}

void archive_walk_close(struct archive_walk *walk)
{
    if (walk == NULL)
        return;
    archive_walk_end(walk);
    if (walk->fd >= 0)
        close(walk->fd);
    free(walk);
}

/* ---- data ---- */

static bool is_tar(const struct archive_walk *walk)
{
    return (archive_format(walk->library) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
}

/* Is it a tar archive in a file that is not compressed? */
static bool is_plain_tar(const struct archive_walk *walk)
{
    return walk->gzip == NULL && archive_filter_code(walk->library, 0) == ARCHIVE_FILTER_NONE && is_tar(walk);
}

/* Check the ratio of decompression, from the bytes of the members or of the whole stream, whichever are more. */
static int check_ratio(struct archive_walk *walk, size_t bytes)
{
    walk->unpacked_bytes += bytes;
    const uint64_t stream = (uint64_t)archive_filter_bytes(walk->library, 0);
    const uint64_t unpacked = stream > walk->unpacked_bytes ? stream : walk->unpacked_bytes;
    if (unpacked <= UNPACKED_BYTES_FREE || unpacked / UNPACKED_RATIO_MAX <= walk->file_bytes)
        return 0;
    return walk_fail(walk, -EFBIG, "unpacks to over 1000 times the archive's size: it is no set of images");
}

/* Get data of the member, unless some are pending. -ENODATA at the end of the member. */
static int next_data(struct archive_walk *walk)
{
    const void *data;
    size_t bytes;
    la_int64_t offset;

    while (walk->pending_bytes == 0) {
        const int status = archive_read_data_block(walk->library, &data, &bytes, &offset);
        if (status == ARCHIVE_EOF)
            return -ENODATA;
        if (status != ARCHIVE_OK)
            return library_fail(walk);
        walk->pending = data;
        walk->pending_bytes = bytes;
        walk->was_read = true;
        const int rc = is_plain_tar(walk) ? 0 : check_ratio(walk, bytes);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The same, but the end of the member is an error: more bytes are expected. */
static int need_data(struct archive_walk *walk)
{
    const int rc = next_data(walk);
    return rc == -ENODATA ? walk_fail(walk, -EBADMSG, "is cut short by the end of the archive") : rc;
}

int archive_walk_read(struct archive_walk *walk, void *out, size_t bytes)
{
    uint8_t *at = out;

    while (bytes > 0) {
        const int rc = need_data(walk);
        if (rc < 0)
            return rc;
        const size_t taken = bytes < walk->pending_bytes ? bytes : walk->pending_bytes;
        memcpy(at, walk->pending, taken);
        walk->pending += taken;
        walk->pending_bytes -= taken;
        at += taken;
        bytes -= taken;
    }
    return 0;
}

/* Skip the rest of the member. If part of it was read, read it to its end, so that its checksum is verified.
 * Compressed streams are read in blocks, so they can be interrupted. */
static int finish_member(struct archive_walk *walk)
{
    const bool is_zip = (archive_format(walk->library) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_ZIP;
    int rc = 0;

    walk->is_open = false;
    walk->pending_bytes = 0;
    if (is_plain_tar(walk) || (is_zip && !walk->was_read))
        rc = archive_read_data_skip(walk->library) >= ARCHIVE_WARN ? 0 : library_fail(walk);
    else
        while ((rc = next_data(walk)) == 0)
            walk->pending_bytes = 0;
    walk->end = archive_filter_bytes(walk->library, 0);
    return rc == -ENODATA ? 0 : rc;
}

/* ---- members ---- */

/* Copy the path without "." and empty components. NULL, or the problem of the path. */
static const char *tidy_path(const char *path, char out[ARCHIVE_PATH_MAX + 1])
{
    size_t used = 0;

    if (strlen(path) > ARCHIVE_PATH_MAX)
        return "holds a name of over 4095 bytes";
    strcpy(out, path);
    if (path[0] == '/')
        return "has an absolute path";
    while (*path != '\0') {
        const size_t bytes = strcspn(path, "/");
        if (bytes == 2 && path[0] == '.' && path[1] == '.')
            return "has a path with '..' in it";
        if (bytes > 0 && !(bytes == 1 && path[0] == '.')) {
            if (used > 0)
                out[used++] = '/';
            memcpy(out + used, path, bytes);
            used += bytes;
        }
        path += bytes + (path[bytes] == '/');
    }
    out[used] = '\0';
    return NULL;
}

/* Why a member is neither a file nor a folder; NULL when it is. */
static const char *kind_problem(struct archive_entry *entry)
{
    const unsigned kind = archive_entry_filetype(entry);

    if (archive_entry_hardlink(entry) != NULL)
        return "is a link";
    if (archive_entry_sparse_count(entry) > 0)
        return "is a sparse file";
    if (archive_entry_is_encrypted(entry))
        return "is encrypted";
    return kind == AE_IFREG || kind == AE_IFDIR ? NULL
           : kind == AE_IFLNK                   ? "is a symbolic link"
           : kind == AE_IFIFO                   ? "is a FIFO"
                                                : "is a device";
}

static int take_entry(struct archive_walk *walk, struct archive_entry *entry, struct archive_member *member_out)
{
    const char *const path = archive_entry_pathname(entry);
    const char *problem = path != NULL ? tidy_path(path, walk->path) : "holds a name that is no text";
    const bool is_folder = archive_entry_filetype(entry) == AE_IFDIR;
    const int64_t bytes = is_folder ? 0 : archive_entry_size(entry);

    if (problem == NULL)
        problem = kind_problem(entry);
    if (problem == NULL && !is_folder && walk->path[0] == '\0')
        problem = "holds a file without a name";
    if (problem == NULL && (bytes < 0 || (!is_folder && !archive_entry_size_is_set(entry))))
        problem = "has an impossible size, or does not say it";
    if (problem != NULL)
        return walk_fail(walk, -EBADMSG, problem);
    *member_out = (struct archive_member){ .path = walk->path, .is_folder = is_folder, .bytes = (uint64_t)bytes };
    return 0;
}

/* Find the position of a member's data in an uncompressed tar archive: libarchive returns a pointer into
 * walk->buffer. */
static int locate_data(struct archive_walk *walk, struct archive_member *member)
{
    if (member->bytes == 0 || !is_plain_tar(walk))
        return 0;
    const int rc = need_data(walk);
    if (rc < 0)
        return rc;
    const uintptr_t buffer = (uintptr_t)walk->buffer, data = (uintptr_t)walk->pending;
    if (data < buffer || data >= buffer + walk->buffer_bytes)
        return 0;
    member->is_in_file = true;
    member->offset = walk->buffer_offset + (data - buffer);
    if (member->bytes > walk->file_bytes || member->offset > walk->file_bytes - member->bytes)
        return walk_fail(walk, -EBADMSG, "is cut short by the end of the archive");
    return 0;
}

/* A tar archive ends with blocks of zeros. Without them, it was truncated between two members. */
static int check_end(struct archive_walk *walk)
{
    walk->path[0] = '\0';
    if (is_tar(walk) && archive_filter_bytes(walk->library, 0) < walk->end + TAR_BLOCK_BYTES)
        return walk_fail(walk, -EBADMSG, "the archive is cut short");
    return -ENODATA;
}

static int next_member(struct archive_walk *walk, struct archive_member *member_out)
{
    struct archive_entry *entry;
    int rc = walk->is_open ? finish_member(walk) : 0;

    if (rc < 0)
        return rc;
    walk->path[0] = '\0';
    const int status = archive_read_next_header(walk->library, &entry);
    if (status == ARCHIVE_EOF)
        return check_end(walk);
    const char *const text = archive_error_string(walk->library);
    /* A conversion warning is ignored: it is about names, such as those of owners, that are not valid UTF-8. */
    if (status != ARCHIVE_OK && !(status == ARCHIVE_WARN && text != NULL && strstr(text, "can't be converted") != NULL))
        return library_fail(walk);
    walk->is_open = true;
    walk->was_read = false;
    rc = take_entry(walk, entry, member_out);
    if (rc == 0)
        rc = locate_data(walk, member_out);
    return rc == 0 && !is_plain_tar(walk) ? check_ratio(walk, 0) : rc;
}

int archive_walk_next(struct archive_walk *walk, struct archive_member *member_out)
{
    const locale_t before = walk->names != (locale_t)0 ? uselocale(walk->names) : (locale_t)0;
    const int rc = next_member(walk, member_out);

    if (before != (locale_t)0)
        uselocale(before);
    return rc;
}

int archive_walk_read_at(const struct archive_walk *walk, uint64_t offset, void *out, size_t bytes)
{
    return file_read_at(walk->fd, offset, out, bytes);
}

uint64_t archive_walk_offset(const struct archive_walk *walk)
{
    const z_off_t packed = walk->gzip != NULL ? gzoffset(walk->gzip) : 0;
    return walk->gzip == NULL ? walk->position : packed > 0 ? (uint64_t)packed : 0;
}

const char *archive_walk_path(const struct archive_walk *walk)
{
    return walk->path;
}

const char *archive_walk_problem(const struct archive_walk *walk)
{
    return walk->problem[0] != '\0' ? walk->problem : NULL;
}

int archive_walk_fail(const struct archive_walk *walk, const char *path, const char *problem, int rc,
                      struct stop *stop)
{
    if (problem == NULL && walk != NULL)
        problem = archive_walk_problem(walk);
    const char *const member = problem != NULL ? archive_walk_path(walk) : "";
    return rc == -ECANCELED ? rc
                            : convert_fail(stop, EXIT_CODE_DATA, rc, "%s: %s%s%s", path, member,
                                           *member != '\0' ? ": " : "", problem != NULL ? problem : exit_cause(rc));
}

/* ---- all members ---- */

int archive_visit(const char *path, const atomic_bool *interrupted, archive_visit_fn visit, void *arg,
                  struct stop *stop)
{
    struct archive_walk *walk;
    struct archive_member member;
    bool is_reported = false;
    int rc = archive_walk_open(&walk, path, interrupted);

    while (rc == 0 && (rc = archive_walk_next(walk, &member)) == 0) {
        rc = visit(arg, walk, &member);
        is_reported = rc < 0;
    }
    if (rc != -ENODATA && !is_reported)
        (void)archive_walk_fail(walk, path, NULL, rc, stop);
    archive_walk_close(walk);
    return rc == -ENODATA ? 0 : rc;
}

int archive_member_load(struct archive_walk *walk, const struct archive_member *member, uint8_t **bytes_out)
{
    uint8_t *const bytes = malloc(member->bytes > 0 ? (size_t)member->bytes : 1);
    const int rc = bytes != NULL ? archive_walk_read(walk, bytes, (size_t)member->bytes) : -ENOMEM;

    if (rc < 0)
        free(bytes);
    else
        *bytes_out = bytes;
    return rc;
}

/* ---- one file ---- */

/* Read the data of the only member to a block whose size is doubled as needed. */
static int read_all(struct archive_walk *walk, size_t bytes_max, uint8_t **bytes_out, size_t *byte_count_out)
{
    size_t room = BUFFER_BYTES, used = 0;
    uint8_t *bytes = malloc(room);
    int rc = bytes != NULL ? 0 : -ENOMEM;

    while (rc == 0 && (rc = next_data(walk)) == 0) {
        const size_t more = walk->pending_bytes;
        if (more > bytes_max - used) {
            rc = -EFBIG;
            break;
        }
        while (room < used + more)
            room *= 2;
        uint8_t *const grown = realloc(bytes, room);
        if (grown == NULL) {
            rc = -ENOMEM;
            break;
        }
        bytes = grown;
        memcpy(bytes + used, walk->pending, more);
        used += more;
        walk->pending_bytes = 0;
    }
    if (rc != -ENODATA) {
        free(bytes);
        return rc;
    }
    *bytes_out = bytes;
    *byte_count_out = used;
    return 0;
}

static int empty_file(uint8_t **bytes_out, size_t *byte_count_out)
{
    *bytes_out = malloc(1);
    if (*bytes_out == NULL)
        return -ENOMEM;
    *byte_count_out = 0;
    return 0;
}

int unpacked_file_read(const char *path, size_t bytes_max, uint8_t **bytes_out, size_t *byte_count_out)
{
    struct archive_walk *walk;
    struct archive_entry *entry;
    int rc = walk_open(&walk, path, NULL, true);

    if (rc == 0) {
        const int status = archive_read_next_header(walk->library, &entry);
        rc = status == ARCHIVE_OK    ? read_all(walk, bytes_max, bytes_out, byte_count_out)
             : status == ARCHIVE_EOF ? empty_file(bytes_out, byte_count_out)
                                     : library_fail(walk);
    }
    archive_walk_close(walk);
    return rc;
}
