/* Fuzz target of walking tar archives. The input is taken for an archive, and for an account of what an archive is
 * made of. Reading never goes back, members lie behind one another, no path leads outside, and a cut archive tells
 * of no other members. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/inputs/tar.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

/* An account is a row of members: a byte for the kind, one for the name's length, one for the data's, then name
 * and data. Their headers get the right checksum, so that changes of seeds get past it. */
const struct fuzz_seed fuzz_seeds[] = {
    SEED("5\004\000cat/" "0\011\003cat/a.pngabc"),
    SEED("L\003\005@@@a/b/c" "0\001\001xy"),
    SEED("x\003\022pax11 path=a\n7 size=3\n" "0\001\003yabc"),
    SEED("2\001\000a" "0\004\000../a"),
    { NULL, 0 },
};

#define ARCHIVE_MAX ((size_t)1 << 18)

struct archive_bytes { uint8_t *bytes; size_t count; uint64_t at; };

static void put_checksum(uint8_t *header)
{
    unsigned sum = 0;

    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += header[i];
    for (size_t i = 6; i-- > 0; sum >>= 3)
        header[148 + i] = (uint8_t)('0' + (sum & 7));
    header[154] = 0;
}

/* The members that the input tells of; its rest, when it is no whole member, stays away. */
static size_t make_archive(const uint8_t *data, size_t bytes, uint8_t *out)
{
    size_t at = 0, made = 0;

    while (bytes - at >= 3 && made + 2048 < ARCHIVE_MAX) {
        const size_t name = data[at + 1], body = data[at + 2];
        if (bytes - at - 3 < name + body)
            break;
        uint8_t *header = out + made;
        memcpy(header, data + at + 3, name);    /* long ones go on into other fields */
        header[124] = (uint8_t)('0' + (body >> 6));
        header[125] = (uint8_t)('0' + (body >> 3 & 7));
        header[126] = (uint8_t)('0' + (body & 7));
        header[127] = 0;
        header[156] = data[at];
        memcpy(header + 257, "ustar", 6);
        put_checksum(header);
        memcpy(header + 512, data + at + 3 + name, body);
        made += body > 0 ? 1024 : 512;
        at += 3 + name + body;
    }
    return made + 1024;
}

static int read_forward(void *arg, uint64_t offset, void *out, size_t bytes, size_t *done_out)
{
    struct archive_bytes *archive = arg;

    require(offset >= archive->at && bytes <= (size_t)1 << 20);
    const size_t left = offset < archive->count ? archive->count - (size_t)offset : 0;
    *done_out = bytes < left ? bytes : left;
    if (*done_out > 0)
        memcpy(out, archive->bytes + offset, *done_out);
    archive->at = offset + *done_out;
    return 0;
}

static void require_safe(const char *path)
{
    const size_t bytes = strlen(path);

    require(bytes <= TAR_PATH_MAX && path[0] != '/' && (bytes == 0 || path[bytes - 1] != '/'));
    require(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 && strstr(path, "/../") == NULL);
    require(bytes < 3 || strcmp(path + bytes - 3, "/..") != 0);
    require(strstr(path, "//") == NULL && strncmp(path, "./", 2) != 0);
}

/* The number of members; a sum over them of those in front of `limit`. */
static size_t walk(uint8_t *bytes, size_t count, size_t limit, uint64_t *sum_out)
{
    static struct tar_walk walk;
    struct archive_bytes archive = { bytes, count, 0 };
    struct tar_member member;
    const char *problem = NULL;
    uint64_t end = 0;
    size_t members = 0;
    int rc;

    walk = (struct tar_walk){ .source = { read_forward, &archive } };
    *sum_out = 0;
    while ((rc = tar_next(&walk, &member, &problem)) == 0) {
        require(member.data_offset >= end && member.data_bytes <= INT64_MAX);
        end = member.data_offset + member.data_bytes;
        require_safe(member.path);
        if (members++ < limit)
            *sum_out = *sum_out * 31 + end + strlen(member.path);
    }
    require(rc == -ENODATA || (rc == -EBADMSG && problem != NULL));
    return members;
}

static void try_archive(uint8_t *bytes, size_t count)
{
    uint64_t whole, cut;

    walk(bytes, count, SIZE_MAX, &whole);
    for (size_t less = 1; less <= 3 && less * 512 <= count; less++) {
        const size_t members = walk(bytes, count - less * 512, SIZE_MAX, &cut);
        walk(bytes, count, members, &whole);
        require(whole == cut);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint64_t sum;
    uint8_t *archive = calloc(1, ARCHIVE_MAX);
    uint8_t *copy = malloc(bytes ? bytes : 1);

    require(archive != NULL && copy != NULL);
    memcpy(copy, data, bytes);
    walk(copy, bytes, SIZE_MAX, &sum);
    try_archive(archive, make_archive(data, bytes, archive));
    free(copy);
    free(archive);
    return 0;
}
