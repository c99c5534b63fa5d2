/* The directory of a zip archive and the inflating of members. Pure functions, called by the converters. */
#include "formats/zip.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "formats/html.h"

#define LOCAL_BYTES 30u
#define ENTRY_BYTES 46u
#define END_BYTES 22u
#define COMMENT_BYTES_MAX 65535u
#define IN_ZIP64 0xffffffffu    /* a size or place that did not fit and stands elsewhere */
#define STORED 0u
#define DEFLATED 8u
#define DEFLATE_RATIO_MAX 1032u /* no deflated data unpack to more */

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) | get16(at + 2) << 16;
}

static bool begins(const uint8_t *at, const char signature[2])
{
    return at[0] == 'P' && at[1] == 'K' && at[2] == (uint8_t)signature[0] && at[3] == (uint8_t)signature[1];
}

static int refuse(const char **problem_out, const char *problem)
{
    *problem_out = problem;
    return -EBADMSG;
}

/* The end record, behind which a comment may stand; NULL where there is none. */
static const uint8_t *find_end(const uint8_t *bytes, size_t byte_count)
{
    for (size_t back = END_BYTES; back <= byte_count && back <= END_BYTES + COMMENT_BYTES_MAX; back++) {
        const uint8_t *const at = bytes + byte_count - back;
        if (begins(at, "\5\6") && get16(at + 20) == back - END_BYTES)
            return at;
    }
    return NULL;
}

int zip_open(struct zip *zip_out, const uint8_t *bytes, size_t byte_count, const char **problem_out)
{
    const uint8_t *const end = find_end(bytes, byte_count);
    if (end == NULL && html_begins(bytes, byte_count))
        return refuse(problem_out, "is HTML, not an archive: download it again");
    if (end == NULL)
        return refuse(problem_out, "has no zip directory: it is cut short or no .npz file");
    const size_t directory_bytes = get32(end + 12), directory = get32(end + 16), limit = (size_t)(end - bytes);
    if (directory == IN_ZIP64 || directory_bytes == IN_ZIP64)
        return refuse(problem_out, "is a zip archive over 4 GiB: unpack it and name its .npy files");
    if (directory > limit || directory_bytes > limit - directory)
        return refuse(problem_out, "has a damaged zip directory");
    *zip_out = (struct zip){ bytes, byte_count, directory, directory + directory_bytes };
    return 0;
}

/* Where the data of an entry are: behind its local header, which has a length of its own. */
static int find_data(const struct zip *zip, size_t local, struct zip_member *member, const char **problem_out)
{
    if (local > zip->byte_count || zip->byte_count - local < LOCAL_BYTES || !begins(zip->bytes + local, "\3\4"))
        return refuse(problem_out, "has a damaged zip directory");
    const uint8_t *const header = zip->bytes + local;
    const size_t left = zip->byte_count - local - LOCAL_BYTES;
    const size_t skipped = get16(header + 26) + get16(header + 28);
    if (skipped > left || member->data_bytes > left - skipped)
        return refuse(problem_out, "is cut short");
    member->data = header + LOCAL_BYTES + skipped;
    return 0;
}

static int check_member(const struct zip_member *member, uint32_t flags, uint32_t method, const char **problem_out)
{
    if ((flags & 1u) != 0)
        return refuse(problem_out, "is encrypted");
    if (method != STORED && method != DEFLATED)
        return refuse(problem_out, "is packed in another way than deflate");
    if (member->data_bytes == IN_ZIP64 || member->unpacked_bytes == IN_ZIP64)
        return refuse(problem_out, "is over 4 GiB: unpack the archive and name its .npy files");
    if (member->is_deflated ? member->unpacked_bytes / DEFLATE_RATIO_MAX > member->data_bytes
                            : member->unpacked_bytes != member->data_bytes)
        return refuse(problem_out, "has a size that cannot be");
    return 0;
}

int zip_next(const struct zip *zip, size_t *place, struct zip_member *member_out, const char **problem_out)
{
    const size_t at = zip->directory + *place, left = zip->directory_end - at;
    const uint8_t *const entry = zip->bytes + at;
    if (left == 0)
        return -ENODATA;
    if (left < ENTRY_BYTES || !begins(entry, "\1\2"))
        return refuse(problem_out, "has a damaged zip directory");
    const size_t name_bytes = get16(entry + 28), more_bytes = get16(entry + 30) + get16(entry + 32);
    if (name_bytes + more_bytes > left - ENTRY_BYTES)
        return refuse(problem_out, "has a damaged zip directory");
    struct zip_member member = {
        .name = (const char *)entry + ENTRY_BYTES, .name_bytes = name_bytes,
        .is_deflated = get16(entry + 10) == DEFLATED, .data_bytes = get32(entry + 20),
        .unpacked_bytes = get32(entry + 24), .crc = get32(entry + 16),
    };
    int rc = check_member(&member, get16(entry + 8), get16(entry + 10), problem_out);
    if (rc == 0)
        rc = find_data(zip, get32(entry + 42), &member, problem_out);
    if (rc < 0)
        return rc;
    *place += ENTRY_BYTES + name_bytes + more_bytes;
    *member_out = member;
    return 0;
}

/* Deflated data without a zlib header around them: all of both blocks, neither more nor less. */
static int inflate_block(const struct zip_member *member, uint8_t *out)
{
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)member->data, .avail_in = (uInt)member->data_bytes,
        .next_out = out, .avail_out = (uInt)member->unpacked_bytes,
    };
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
        return -ENOMEM;
    const int status = inflate(&stream, Z_FINISH);
    const bool is_whole = status == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
    inflateEnd(&stream);
    return is_whole ? 0 : status == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

int zip_unpack(const struct zip_member *member, uint8_t *out, const char **problem_out)
{
    *problem_out = "has damaged compressed data";
    if (member->is_deflated) {
        const int rc = inflate_block(member, out);
        if (rc < 0)
            return rc;
    } else if (member->data_bytes > 0) {
        memcpy(out, member->data, member->data_bytes);
    }
    if (crc32_z(0, out, member->unpacked_bytes) == member->crc)
        return 0;
    return refuse(problem_out, "is damaged: its checksum differs");
}
