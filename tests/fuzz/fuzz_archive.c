/* Fuzz target of reading archives: any bytes as an archive, and as a list of members that a tar archive is made of. No
 * path leads outside, data is inside the file, and a cut archive has no other members. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tools/convert/archive_walk.h"

#define SEED(text) { text, sizeof(text) - 1 }

/* A list of members: a byte for the kind, one for the name's length, one for the data's, then name
 * and data. Their headers get the right checksum, so that changes of seeds get past it. */
const struct fuzz_seed fuzz_seeds[] = {
    SEED("5\004\000cat/" "0\011\003cat/a.pngabc"),
    SEED("L\003\005@@@a/b/c" "0\001\001xy"),
    SEED("x\003\022pax11 path=a\n7 size=3\n" "0\001\003yabc"),
    SEED("2\001\000a" "0\004\000../a"),
    { NULL, 0 },
};

#define ARCHIVE_MAX ((size_t)1 << 18)

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

/* The archive of the members in the input; what is no whole member is left out. */
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

static void require_safe(const char *path)
{
    const size_t bytes = strlen(path);

    require(bytes <= ARCHIVE_PATH_MAX && path[0] != '/' && (bytes == 0 || path[bytes - 1] != '/'));
    require(strcmp(path, "..") != 0 && strncmp(path, "../", 3) != 0 && strstr(path, "/../") == NULL);
    require(bytes < 3 || strcmp(path + bytes - 3, "/..") != 0);
    require(strstr(path, "//") == NULL && strncmp(path, "./", 2) != 0);
}

/* Walk over the bytes as a file. The number of members; a sum over those in front of `limit`. */
static size_t walk(const uint8_t *bytes, size_t count, size_t limit, uint64_t *sum_out)
{
    struct archive_walk *walk;
    struct archive_member member;
    uint8_t head[16];
    size_t members = 0;
    const int fd = memfd_create("archive", MFD_CLOEXEC);
    char path[64];

    require(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    *sum_out = 0;
    int rc = archive_walk_open(&walk, path, NULL);
    while (rc == 0 && (rc = archive_walk_next(walk, &member)) == 0) {
        require(!member.is_in_file || member.offset + member.bytes <= count);
        require_safe(member.path);
        const size_t wanted = member.bytes < sizeof(head) ? (size_t)member.bytes : sizeof(head);
        rc = archive_walk_read(walk, head, wanted);
        for (size_t i = 0; rc == 0 && i < wanted && members < limit; i++)
            *sum_out = *sum_out * 31 + head[i];
        if (members++ < limit)
            *sum_out = *sum_out * 31 + member.bytes + strlen(member.path);
    }
    require(rc == -ENODATA || rc == -EFBIG || (rc == -EBADMSG && archive_walk_problem(walk) != NULL));
    archive_walk_close(walk);
    close(fd);
    return members;
}

/* A tar archive that is cut has no other members than the whole one. */
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

    require(archive != NULL);
    walk(data, bytes, SIZE_MAX, &sum);
    try_archive(archive, make_archive(data, bytes, archive));
    free(archive);
    return 0;
}
