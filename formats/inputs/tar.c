/* Headers of tar archives, one after the other. Called by the converters. */
#include "formats/inputs/tar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EXTENSION_BYTES_MAX ((uint64_t)1 << 20)     /* of long names and pax headers */

/* The fields of a header that are looked at. */
enum { NAME = 0, NAME_BYTES = 100, SIZE = 124, SIZE_BYTES = 12, CHECKSUM = 148, CHECKSUM_BYTES = 8, KIND = 156,
       MAGIC = 257, PREFIX = 345, PREFIX_BYTES = 155 };

/* Members that are refused, by the letter of their kind. */
static const struct {
    char letter;
    const char *problem;
} refused_kinds[] = {
    { '1', "is a link" },
    { '2', "is a symbolic link" },
    { '3', "is a device" },
    { '4', "is a device" },
    { '6', "is a FIFO" },
    { 'M', "goes on from another volume" },
    { 'S', "is a sparse file" },
};

static int refuse(const char *problem, const char **problem_out)
{
    *problem_out = problem;
    return -EBADMSG;
}

/* 0 when all are there, -EBADMSG when the archive ends before. */
static int read_exactly(struct tar_walk *walk, uint64_t offset, void *out, size_t bytes, const char **problem_out)
{
    size_t done = 0;
    const int rc = walk->source.read(walk->source.arg, offset, out, bytes, &done);

    if (rc < 0)
        return rc;
    return done == bytes ? 0 : refuse("the archive is cut short", problem_out);
}

/* Octal digits between blanks, up to a blank or zero byte. */
static bool read_octal(const uint8_t *field, size_t bytes, uint64_t *value_out)
{
    uint64_t value = 0;
    size_t i = 0;

    while (i < bytes && field[i] == ' ')
        i++;
    for (; i < bytes && field[i] >= '0' && field[i] <= '7'; i++) {
        if (value >> 61 != 0)
            return false;
        value = value << 3 | (uint64_t)(field[i] - '0');
    }
    if (i < bytes && field[i] != ' ' && field[i] != 0)
        return false;
    *value_out = value;
    return true;
}

/* GNU's form of numbers that are too large for octal: a set highest bit, then the number, big-endian. */
static bool read_number(const uint8_t *field, size_t bytes, uint64_t *value_out)
{
    if (field[0] < 0x80)
        return read_octal(field, bytes, value_out);
    uint64_t value = field[0] & 0x7f;
    for (size_t i = 1; i < bytes; i++) {
        if (value >> 55 != 0)
            return false;
        value = value << 8 | field[i];
    }
    *value_out = value;
    return true;
}

/* The sum over the header with blanks in place of the sum. Old writers added signed bytes. */
static bool checksum_is_right(const uint8_t *header)
{
    uint64_t said;
    int64_t unsigned_sum = 0, signed_sum = 0;

    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) {
        const bool is_sum = i >= CHECKSUM && i < CHECKSUM + CHECKSUM_BYTES;
        const uint8_t byte = is_sum ? ' ' : header[i];
        unsigned_sum += byte;
        signed_sum += (int8_t)byte;
    }
    return read_octal(header + CHECKSUM, CHECKSUM_BYTES, &said) &&
           ((int64_t)said == unsigned_sum || (int64_t)said == signed_sum);
}

static bool is_zero(const uint8_t *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (block[i] != 0)
            return false;
    }
    return true;
}

/* The next block that is not zero. -ENODATA at the archive's end, which is behind a block of zeros. */
static int next_header(struct tar_walk *walk, uint8_t header[TAR_BLOCK_BYTES], const char **problem_out)
{
    for (;;) {
        size_t done = 0;
        const int rc = walk->source.read(walk->source.arg, walk->offset, header, TAR_BLOCK_BYTES, &done);
        if (rc < 0)
            return rc;
        if (done < TAR_BLOCK_BYTES)
            return walk->has_end_mark && is_zero(header, done) ? -ENODATA
                                                               : refuse("the archive is cut short", problem_out);
        if (!is_zero(header, TAR_BLOCK_BYTES))
            break;
        walk->has_end_mark = true;
        walk->offset += TAR_BLOCK_BYTES;
    }
    walk->has_end_mark = false;
    return checksum_is_right(header) ? 0 : refuse("is no tar archive, or one with a damaged header", problem_out);
}

static int keep_path(struct tar_walk *walk, const char *path, size_t bytes, const char **problem_out)
{
    if (bytes > TAR_PATH_MAX)
        return refuse("holds a name of over 4095 bytes", problem_out);
    if (memchr(path, 0, bytes) != NULL)
        return refuse("holds a name with a zero byte in it", problem_out);
    memcpy(walk->long_path, path, bytes);
    walk->long_path[bytes] = '\0';
    walk->has_long_path = true;
    return 0;
}

/* The body of GNU's long name ends with a zero byte. */
static int take_long_name(struct tar_walk *walk, const char *body, size_t bytes, const char **problem_out)
{
    return keep_path(walk, body, strnlen(body, bytes), problem_out);
}

/* Decimal digits and nothing else. */
static bool read_decimal(const char *text, size_t bytes, uint64_t *value_out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || value > (UINT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *value_out = value;
    return bytes > 0;
}

static bool is_key(const char *key, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(key, wanted, bytes) == 0;
}

static int take_pax_value(struct tar_walk *walk, const char *key, size_t key_bytes, const char *value, size_t bytes,
                          const char **problem_out)
{
    if (is_key(key, key_bytes, "path"))
        return keep_path(walk, value, bytes, problem_out);
    if (key_bytes >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
        return refuse("holds a sparse file", problem_out);
    if (!is_key(key, key_bytes, "size"))
        return 0;
    if (!read_decimal(value, bytes, &walk->long_bytes))
        return refuse("holds a pax header whose size is no number", problem_out);
    walk->has_long_bytes = true;
    return 0;
}

/* The body of a pax header: lines "LENGTH KEY=VALUE\n", LENGTH being that of the whole line. */
static int take_pax(struct tar_walk *walk, const char *body, size_t bytes, const char **problem_out)
{
    static const char damaged[] = "holds a damaged pax header";

    while (bytes > 0 && body[0] != '\0') {
        uint64_t line_bytes;
        const char *blank = memchr(body, ' ', bytes);
        if (blank == NULL || !read_decimal(body, (size_t)(blank - body), &line_bytes) || line_bytes > bytes)
            return refuse(damaged, problem_out);
        const size_t before = (size_t)(blank - body) + 1;
        if (line_bytes <= before || body[line_bytes - 1] != '\n')
            return refuse(damaged, problem_out);
        const size_t rest = (size_t)line_bytes - before - 1;
        const char *equals = memchr(blank + 1, '=', rest);
        if (equals == NULL)
            return refuse(damaged, problem_out);
        const size_t key_bytes = (size_t)(equals - blank - 1);
        const int rc = take_pax_value(walk, blank + 1, key_bytes, equals + 1, rest - key_bytes - 1, problem_out);
        if (rc < 0)
            return rc;
        body += line_bytes;
        bytes -= (size_t)line_bytes;
    }
    return 0;
}

static int ignore(struct tar_walk *walk, const char *body, size_t bytes, const char **problem_out)
{
    (void)walk, (void)body, (void)bytes, (void)problem_out;
    return 0;
}

/* Headers that say something of the member behind them, by the letter of their kind. */
static const struct extension {
    char letter;
    int (*take)(struct tar_walk *walk, const char *body, size_t bytes, const char **problem_out);
} extensions[] = {
    { 'L', take_long_name },
    { 'x', take_pax },
    { 'X', take_pax },
    { 'g', ignore },            /* of all members: no path, no size */
    { 'K', ignore },            /* the target of a link */
    { 'V', ignore },            /* the volume's name */
};

static const struct extension *find_extension(char letter)
{
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
        if (extensions[i].letter == letter)
            return &extensions[i];
    }
    return NULL;
}

/* Where the header behind `bytes` of data lies. */
static int advance(struct tar_walk *walk, uint64_t bytes, const char **problem_out)
{
    uint64_t blocks_bytes;

    if (__builtin_add_overflow(bytes, TAR_BLOCK_BYTES - 1, &blocks_bytes))
        return refuse("has an impossible size", problem_out);
    blocks_bytes -= blocks_bytes % TAR_BLOCK_BYTES;
    if (__builtin_add_overflow(walk->offset, blocks_bytes, &walk->offset) || walk->offset > INT64_MAX)
        return refuse("has an impossible size", problem_out);
    return 0;
}

static int take_extension(struct tar_walk *walk, const struct extension *extension, uint64_t bytes,
                          const char **problem_out)
{
    if (bytes > EXTENSION_BYTES_MAX)
        return refuse("holds a header of over 1 MiB", problem_out);
    char *body = calloc(1, (size_t)bytes + 1);
    if (body == NULL)
        return -ENOMEM;
    int rc = read_exactly(walk, walk->offset, body, (size_t)bytes, problem_out);
    if (rc == 0)
        rc = extension->take(walk, body, (size_t)bytes, problem_out);
    free(body);
    return rc < 0 ? rc : advance(walk, bytes, problem_out);
}

/* ustar has a second field with the beginning of long paths; GNU has other things in that place. */
static void header_path(const uint8_t *header, char path_out[TAR_PATH_MAX + 1])
{
    const char *prefix = (const char *)header + PREFIX, *name = (const char *)header + NAME;
    const bool is_ustar = memcmp(header + MAGIC, "ustar", 6) == 0;
    const size_t prefix_bytes = is_ustar ? strnlen(prefix, PREFIX_BYTES) : 0;
    const size_t name_bytes = strnlen(name, NAME_BYTES);
    char *at = path_out;

    memcpy(at, prefix, prefix_bytes);
    at += prefix_bytes;
    if (prefix_bytes > 0)
        *at++ = '/';
    memcpy(at, name, name_bytes);
    at[name_bytes] = '\0';
}

/* Take "." and empty parts out of the path; NULL, or what is wrong with it. */
static const char *tidy_path(char *path)
{
    char *out = path;
    const char *part = path;

    if (path[0] == '/')
        return "has an absolute path";
    while (*part != '\0') {
        const size_t bytes = strcspn(part, "/");
        if (bytes == 2 && part[0] == '.' && part[1] == '.')
            return "has a path with '..' in it";
        if (bytes > 0 && !(bytes == 1 && part[0] == '.')) {
            if (out > path)
                *out++ = '/';
            memmove(out, part, bytes);
            out += bytes;
        }
        part += bytes + (part[bytes] == '/');
    }
    *out = '\0';
    return NULL;
}

static const char *refused_kind(char letter)
{
    for (size_t i = 0; i < sizeof(refused_kinds) / sizeof(refused_kinds[0]); i++) {
        if (refused_kinds[i].letter == letter)
            return refused_kinds[i].problem;
    }
    return "is of an unknown kind";
}

static bool is_plain(char letter)
{
    return letter == '0' || letter == '\0' || letter == '7';
}

/* Its path, kept in walk->path, and whether it is a folder: in the old form by the path's end. */
static int take_path(struct tar_walk *walk, const uint8_t *header, bool *is_folder_out, const char **problem_out)
{
    const char letter = (char)header[KIND];

    if (walk->has_long_path)
        memcpy(walk->path, walk->long_path, sizeof(walk->path));
    else
        header_path(header, walk->path);
    const size_t bytes = strlen(walk->path);
    const bool ends_as_folder = bytes > 0 && walk->path[bytes - 1] == '/';
    const char *problem = tidy_path(walk->path);
    if (problem != NULL)
        return refuse(problem, problem_out);
    *is_folder_out = letter == '5' || letter == 'D' || (is_plain(letter) && ends_as_folder);
    if (!*is_folder_out && !is_plain(letter))
        return refuse(refused_kind(letter), problem_out);
    if (!*is_folder_out && walk->path[0] == '\0')
        return refuse("holds a file without a name", problem_out);
    return 0;
}

static int take_member(struct tar_walk *walk, const uint8_t *header, uint64_t bytes, struct tar_member *member_out,
                       const char **problem_out)
{
    bool is_folder;

    int rc = take_path(walk, header, &is_folder, problem_out);
    if (rc < 0)
        return rc;
    if (walk->has_long_bytes)
        bytes = walk->long_bytes;
    /* folders of GNU's incremental archives (D) have data; other folders' sizes mean nothing */
    if (is_folder && header[KIND] != 'D')
        bytes = 0;
    const struct tar_member member = { is_folder, walk->path, walk->offset, bytes };
    rc = advance(walk, bytes, problem_out);
    if (rc < 0)
        return rc;
    walk->has_long_path = walk->has_long_bytes = false;
    *member_out = member;
    return 0;
}

int tar_next(struct tar_walk *walk, struct tar_member *member_out, const char **problem_out)
{
    uint8_t header[TAR_BLOCK_BYTES];
    uint64_t bytes;

    for (;;) {
        walk->path[0] = '\0';
        int rc = next_header(walk, header, problem_out);
        if (rc < 0)
            return rc;
        walk->offset += TAR_BLOCK_BYTES;
        if (!read_number(header + SIZE, SIZE_BYTES, &bytes))
            return refuse("holds a member whose size is no number", problem_out);
        const struct extension *extension = find_extension((char)header[KIND]);
        if (extension == NULL)
            return take_member(walk, header, bytes, member_out, problem_out);
        rc = take_extension(walk, extension, bytes, problem_out);
        if (rc < 0)
            return rc;
    }
}
