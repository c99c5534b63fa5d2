/* Index files of shards. Called while a data set is opened. A file that cannot be trusted is treated as absent, so
 * nothing here is an error of the run.
 *
 *   header | u32 payload bytes of every record | {u64 before_record, u64 bytes} of every damage
 *
 * Offsets are computed from the lengths. Each record must end inside the shard, and all together must have its size. */
#include "loader/shards/shard_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "stage/file/file.h"
#include "stage/file/folders.h"

#define INDEX_MAGIC "PTINDEX"
#define INDEX_VERSION 4u
#define INDEX_BYTE_ORDER 0x01020304u

struct index_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint64_t checksum;          /* xxh3 of the whole file with this field set to 0 */
    struct shard_stamp stamp;   /* stamp of the shard */
    uint64_t stream_bytes;
    uint64_t contents;
    uint64_t sample;
    uint64_t record_count;
    uint64_t damage_count;
};

struct index_damage { uint64_t before_record, bytes; };

/* An index file in memory. */
struct image {
    uint8_t *data;
    size_t bytes;
};

static bool image_size(uint64_t record_count, uint64_t damage_count, size_t *bytes_out)
{
    size_t records_bytes, damages_bytes, bytes;
    if (__builtin_mul_overflow(record_count, sizeof(uint32_t), &records_bytes)
        || __builtin_mul_overflow(damage_count, sizeof(struct index_damage), &damages_bytes)
        || __builtin_add_overflow(records_bytes, damages_bytes, &bytes)
        || __builtin_add_overflow(bytes, sizeof(struct index_header), &bytes))
        return false;
    *bytes_out = bytes;
    return true;
}

/* The checksum of an index file. The caller has set the checksum field in it to 0. */
static uint64_t image_checksum(const struct image *image)
{
    return XXH3_64bits(image->data, image->bytes);
}

/* ---- paths ---- */

bool index_file_beside(const char *path, char *out, size_t out_size)
{
    const char *slash = strrchr(path, '/');
    const int folder_bytes = slash != NULL ? (int)(slash + 1 - path) : 0;
    const int wanted = snprintf(out, out_size, "%.*s.%s" INDEX_FILE_SUFFIX, folder_bytes, path,
                                path + folder_bytes);
    return wanted > 0 && (size_t)wanted < out_size;
}

bool index_file_in_cache(const char *path, char *out, size_t out_size)
{
    char folder[PATH_MAX], absolute[PATH_MAX];
    if (!cache_folder_find(folder, sizeof(folder)) || realpath(path, absolute) == NULL)
        return false;
    const int wanted = snprintf(out, out_size, "%s/%016" PRIx64 INDEX_FILE_SUFFIX, folder,
                                (uint64_t)XXH3_64bits(absolute, strlen(absolute)));
    return wanted > 0 && (size_t)wanted < out_size;
}

/* ---- reading: the file is not trusted, since its checksum detects damage, but not forgery ---- */

/* Do the counts fit the stream's size? Damages are between records, so there is at most one more damage than
 * records. */
static bool counts_fit(const struct index_header *header)
{
    return header->record_count <= header->stream_bytes / TFRECORD_FRAME_BYTES &&
           header->damage_count <= header->record_count + 1;
}

/* Is this an index of this shard, with the length that follows from its counts? */
static bool header_fits(const struct index_header *header, const struct shard_source *shard, uint64_t file_bytes)
{
    size_t bytes = 0;
    return memcmp(header->magic, INDEX_MAGIC, sizeof(header->magic)) == 0 && header->version == INDEX_VERSION &&
           header->byte_order == INDEX_BYTE_ORDER && shard_stamp_equal(&header->stamp, &shard->stamp) &&
           (!shard->ops->is_plain || header->stream_bytes == shard->stamp.bytes) && counts_fit(header) &&
           image_size(header->record_count, header->damage_count, &bytes) && bytes == file_bytes;
}

/* Read the header first, so that a large file that is no index is not read completely. */
static int image_read(struct image *image, struct shard_source *file, const struct shard_source *shard)
{
    struct index_header header;
    const uint64_t bytes = file->stamp.bytes;
    if (shard_source_read(file, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
        return -EBADMSG;
    if (!header_fits(&header, shard, bytes))
        return -ESTALE;
    image->data = malloc(bytes);
    if (image->data == NULL)
        return -ENOMEM;
    image->bytes = bytes;
    return shard_source_read(file, image->data, bytes, 0) == (ssize_t)bytes ? 0 : -EBADMSG;
}

static int image_load(struct image *image, const char *path, const struct shard_source *shard)
{
    struct shard_source *file;
    int rc = shard_source_open(&file, &shard_file_ops, path);
    if (rc < 0)
        return rc;
    rc = image_read(image, file, shard);
    shard_source_close(file);
    return rc;
}

/* Check the whole file, including the header, since the file may have changed after the header was read. */
static bool image_is_whole(struct image *image, const struct shard_source *shard, struct index_header *header_out)
{
    struct index_header header;
    memcpy(&header, image->data, sizeof(header));
    if (!header_fits(&header, shard, image->bytes))
        return false;
    *header_out = header;
    header.checksum = 0;
    memcpy(image->data, &header, sizeof(header));
    return image_checksum(image) == header_out->checksum;
}

static int unpack_record(struct shard_index *index, const uint8_t *length)
{
    uint32_t payload_bytes;
    memcpy(&payload_bytes, length, sizeof(payload_bytes));
    const uint64_t bytes = (uint64_t)payload_bytes + TFRECORD_FRAME_BYTES;
    if (payload_bytes > TFRECORD_PAYLOAD_MAX || bytes > index->bytes - index->end)
        return -EBADMSG;
    return shard_index_add_record(index, payload_bytes);
}

static int unpack_damage(struct shard_index *index, const struct index_damage *damage)
{
    if (damage->before_record != index->record_count || damage->bytes == 0 || damage->bytes > index->bytes - index->end)
        return -EBADMSG;
    return shard_index_add_damage(index, damage->bytes);
}

/* Unpack records in order, and before each one the damage that precedes it, if any. */
static int image_unpack(const struct image *image, const struct index_header *header, struct shard_index *index)
{
    const uint8_t *length = image->data + sizeof(*header);
    const uint8_t *const lengths_end = length + header->record_count * sizeof(uint32_t);
    const uint8_t *next = lengths_end, *const end = image->data + image->bytes;
    int rc = shard_index_reserve(index, header->record_count);
    index->bytes = header->stream_bytes;
    index->contents = header->contents;
    index->sample = header->sample;
    index->stamp.ctime_ns = header->stamp.ctime_ns;
    while (rc == 0 && (length < lengths_end || next < end)) {
        struct index_damage damage = { .before_record = UINT64_MAX };
        if (next < end)
            memcpy(&damage, next, sizeof(damage));
        if (length == lengths_end || damage.before_record <= index->record_count) {
            rc = unpack_damage(index, &damage);
            next += sizeof(damage);
        } else {
            rc = unpack_record(index, length);
            length += sizeof(uint32_t);
        }
    }
    return rc == 0 && index->end != index->bytes ? -EBADMSG : rc;
}

static int index_load(struct shard_index *index, const char *file, const struct shard_source *shard)
{
    struct image image = { 0 };
    struct index_header header;
    struct shard_index loaded = *index;
    int rc = image_load(&image, file, shard);
    if (rc == 0 && !image_is_whole(&image, shard, &header))
        rc = -ESTALE;
    if (rc == 0)
        rc = image_unpack(&image, &header, &loaded);
    if (rc == 0)
        *index = loaded;
    else
        shard_index_release(&loaded);
    free(image.data);
    return rc;
}

static bool has_time_of(const struct shard_index *index, const struct shard_source *shard)
{
    return index->stamp.ctime_ns == shard->stamp.ctime_ns;
}

int index_file_read(struct shard_index *index, const struct shard_source *shard)
{
    char file[PATH_MAX];
    struct shard_index other = *index;
    int rc = -ENOENT;
    if (index_file_beside(shard->path, file, sizeof(file)))
        rc = index_load(index, file, shard);
    if ((rc == 0 && has_time_of(index, shard)) || !index_file_in_cache(shard->path, file, sizeof(file)) ||
        index_load(&other, file, shard) < 0)
        return rc;
    if (rc == 0 && !has_time_of(&other, shard)) {
        shard_index_release(&other);
        return 0;
    }
    if (rc == 0)
        shard_index_release(index);
    *index = other;
    return 0;
}

/* ---- writing ---- */

static int image_pack(struct image *image, const struct shard_index *index)
{
    if (!image_size(index->record_count, index->damage_count, &image->bytes))
        return -EOVERFLOW;
    image->data = malloc(image->bytes);
    if (image->data == NULL)
        return -ENOMEM;
    struct index_header header = {
        .magic = INDEX_MAGIC, .version = INDEX_VERSION, .byte_order = INDEX_BYTE_ORDER,
        .stamp = index->stamp, .stream_bytes = index->bytes, .contents = index->contents,
        .sample = index->sample,
        .record_count = index->record_count, .damage_count = index->damage_count,
    };
    uint8_t *at = image->data + sizeof(header);
    if (index->record_count > 0)
        memcpy(at, index->lengths, index->record_count * sizeof(uint32_t));
    at += index->record_count * sizeof(uint32_t);
    for (uint64_t i = 0; i < index->damage_count; i++, at += sizeof(struct index_damage))
        memcpy(at, &(struct index_damage){ index->damages[i].before_record, index->damages[i].bytes },
               sizeof(struct index_damage));
    memcpy(image->data, &header, sizeof(header));
    header.checksum = image_checksum(image);
    memcpy(image->data, &header, sizeof(header));
    return 0;
}

/* Check that the open file still has its temporary name. 0, -EWOULDBLOCK if another process has renamed it, or another
 * negative errno. */
static int check_name(int fd, const char *file)
{
    struct stat opened, named = { .st_ino = 0 };
    if (fstat(fd, &opened) < 0 || (lstat(file, &named) < 0 && errno != ENOENT))
        return -errno;
    if (!S_ISREG(opened.st_mode))
        return -EINVAL;
    return opened.st_nlink == 1 && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino ? 0 : -EWOULDBLOCK;
}

/* Truncate what a process that died may have written after the image. Only if necessary: ext4 writes a truncated file
 * to disk as soon as it is closed. */
static int cut_leftover(int fd, size_t image_bytes)
{
    struct stat written;
    if (fstat(fd, &written) < 0)
        return -errno;
    return (size_t)written.st_size == image_bytes || ftruncate(fd, (off_t)image_bytes) == 0 ? 0 : -errno;
}

static int write_image(int fd, const struct image *image, const char *temporary)
{
    int rc = file_lock(fd);
    if (rc == 0 || rc == -EOPNOTSUPP)
        rc = check_name(fd, temporary);
    if (rc == 0)
        rc = file_write(fd, image->data, image->bytes);
    return rc < 0 ? rc : cut_leftover(fd, image->bytes);
}

/* Write the file atomically. All processes use the same temporary name, so that a file left by a process that died is
 * reused; the process with the lock writes. On file systems without locks two processes may write at once, which the
 * checksum detects. */
static int image_store(const struct image *image, const char *file)
{
    char temporary[PATH_MAX];
    const int wanted = snprintf(temporary, sizeof(temporary), "%s.tmp", file);
    if (wanted < 0 || (size_t)wanted >= sizeof(temporary))
        return -ENAMETOOLONG;
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    int rc = write_image(fd, image, temporary);
    if (rc == 0 && rename(temporary, file) < 0)
        rc = -errno;
    if (rc < 0 && rc != -EWOULDBLOCK)
        (void)unlink(temporary);
    if (close(fd) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

/* False if the folder is not writable. If another process is already writing the file, there is nothing to do. */
static bool store_beside(const struct image *image, const char *path)
{
    char file[PATH_MAX];
    const int rc = index_file_beside(path, file, sizeof(file)) ? image_store(image, file) : -ENAMETOOLONG;
    return rc == 0 || rc == -EWOULDBLOCK;
}

static void store_in_cache(const struct image *image, const char *path)
{
    char file[PATH_MAX];
    cache_folder_make();
    if (index_file_in_cache(path, file, sizeof(file)))
        (void)image_store(image, file);
}

void index_file_write(const struct shard_index *index, const char *path)
{
    struct image image = { 0 };
    if (image_pack(&image, index) == 0 && !store_beside(&image, path))
        store_in_cache(&image, path);
    free(image.data);
}

void index_file_remove(const char *path)
{
    char file[PATH_MAX];
    if (index_file_beside(path, file, sizeof(file)))
        (void)unlink(file);
    if (index_file_in_cache(path, file, sizeof(file)))
        (void)unlink(file);
}

bool index_file_is_name(const char *name)
{
    return strstr(name, INDEX_FILE_SUFFIX) != NULL;
}
