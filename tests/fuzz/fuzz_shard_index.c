/* Fuzz target of the shard index: any bytes as a file. The first byte chooses: the rest is
 * a shard, walked strictly or past damage, or the kept index of a small one, or what follows
 * the header of one that is right, checksum included, as somebody might make it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "formats/tfrecord.h"
#include "loader/shards/shard_index.h"
#include "tests/fuzz/fuzz.h"
#include "tests/helpers/memory_source.h"

static char folder[] = "/tmp/pipetrain-fuzz-XXXXXX";

/* Two records of 3 and 0 bytes. */
static const uint8_t two_records[] = {
    1,
    3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, '1', '2', '3', 0xce, 0x0b, 0xe7, 0x01,
    0, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2,
};

/* The same behind damage, and cut. */
static const uint8_t damaged_records[] = {
    1,
    9, 9, 9,
    3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, '1', '2', '3', 0xce, 0x0b, 0xe7, 0x01,
    3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, '1',
};

#define SHARD_BYTES 35u

/* An index made up: how many damages, then the lengths of records, then the damages. */
static const uint8_t made_records[] = { 3, 0, 3, 0, 0, 0, 0, 0, 0, 0 };
static const uint8_t made_damage[] = {
    3, 1, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0,
};
/* Two lengths of damage that add up to the size of the shard, around the end of 64 bits. */
static const uint8_t made_wrap[] = {
    3, 2, 3, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    128, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 128,
};

const struct fuzz_seed fuzz_seeds[] = {
    { two_records, sizeof(two_records) },
    { damaged_records, sizeof(damaged_records) },
    { made_records, sizeof(made_records) },
    { made_damage, sizeof(made_damage) },
    { made_wrap, sizeof(made_wrap) },
    { NULL, 0 },
};

static void write_file(int fd, const uint8_t *data, size_t bytes)
{
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
        abort();
}

/* Records and damages cover the file without gaps, each inside it, and every record has a right header. */
static void check_index(const struct shard_index *index, const uint8_t *data)
{
    uint64_t offset = 0, damage = 0;
    for (uint64_t i = 0; i <= index->record_count; i++) {
        while (damage < index->damage_count && index->damages[damage].before_record == i) {
            if (index->damages[damage].offset != offset || index->damages[damage].bytes > index->bytes - offset)
                abort();
            offset += index->damages[damage++].bytes;
        }
        if (i == index->record_count)
            break;
        uint64_t payload_bytes;
        struct tfrecord_problem problem;
        if (shard_index_find(index, i).offset != offset
            || (data != NULL && tfrecord_header(data + offset, &payload_bytes, &problem) != TFRECORD_OK)
            || (data != NULL && payload_bytes != shard_index_find(index, i).payload_bytes))
            abort();
        if (shard_index_find(index, i).payload_bytes + (uint64_t)TFRECORD_FRAME_BYTES > index->bytes - offset)
            abort();
        offset += shard_index_find(index, i).payload_bytes + (uint64_t)TFRECORD_FRAME_BYTES;
    }
    if (offset != index->bytes || damage != index->damage_count)
        abort();
}

/* No whole record is lost in damage. */
static void check_damages(const struct shard_index *index, const uint8_t *data)
{
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    for (uint64_t i = 0; i < index->damage_count; i++)
        for (uint64_t at = 1; at < index->damages[i].bytes; at++)
            if (tfrecord_verify(data + index->damages[i].offset + at, index->bytes - index->damages[i].offset - at,
                                &payload_bytes, &problem) == TFRECORD_OK)
                abort();
}

static void try_shard(const uint8_t *data, size_t bytes, bool skip_damage)
{
    struct memory_shard shard = { .name = "shard", .data = data, .bytes = bytes };
    const struct shard_index_options options = { .skip_damage = skip_damage };
    struct shard_source *source;
    struct shard_index index;
    char problem[512] = "";
    memory_source_set(&shard, 1);
    if (shard_source_open(&source, &memory_source_ops, "shard") < 0)
        abort();
    const int rc = shard_index_open(&index, source, &options, problem, sizeof(problem));
    shard_source_close(source);
    if (rc == 0) {
        check_index(&index, data);
        check_damages(&index, data);
        shard_index_release(&index);
    } else if ((rc != -EBADMSG && rc != -ENOTSUP) || problem[0] == '\0') {
        abort();
    }
}

static const struct shard_stamp stamp = { .bytes = SHARD_BYTES, .mtime_ns = 1, .inode = 2 };

static void try_kept_index(const uint8_t *data, size_t bytes)
{
    char path[64], file[128];
    snprintf(path, sizeof(path), "%s/shard", folder);
    snprintf(file, sizeof(file), "%s/.shard" INDEX_FILE_SUFFIX, folder);
    const int kept = open(file, O_RDWR | O_CREAT, 0600);
    if (kept < 0)
        abort();
    write_file(kept, data, bytes);
    close(kept);
    const struct shard_source shard = { .ops = &shard_file_ops, .path = path, .stamp = stamp };
    struct shard_index index = { .stamp = stamp };
    if (index_file_read(&index, &shard) == 0) {
        if (index.bytes != SHARD_BYTES)
            abort();
        check_index(&index, NULL);
        shard_index_release(&index);
    }
}

/* The first byte of `data` says how many damages, the rest is what follows the header. */
static void try_made_index(const uint8_t *data, size_t bytes)
{
    struct {
        char magic[8];
        uint32_t version, byte_order;
        uint64_t checksum;
        struct shard_stamp stamp;
        uint64_t stream_bytes, contents, sample, record_count, damage_count;
    } header = { .magic = "PTINDEX", .version = 4, .byte_order = 0x01020304, .stamp = stamp,
                 .stream_bytes = SHARD_BYTES };
    static uint8_t made[1 << 14];
    if (bytes == 0 || bytes > sizeof(made) / 2)
        return;
    header.damage_count = data[0] % 8;
    if (header.damage_count * 16 > bytes - 1)
        return;
    header.record_count = (bytes - 1 - header.damage_count * 16) / 4;
    const size_t made_bytes = sizeof(header) + header.record_count * 4 + header.damage_count * 16;
    memcpy(made, &header, sizeof(header));
    memcpy(made + sizeof(header), data + 1, made_bytes - sizeof(header));
    header.checksum = XXH3_64bits(made, made_bytes);
    memcpy(made, &header, sizeof(header));
    try_kept_index(made, made_bytes);
}

static void remove_folder(void)
{
    char file[128];
    snprintf(file, sizeof(file), "%s/.shard" INDEX_FILE_SUFFIX, folder);
    (void)unlink(file);
    (void)rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool is_prepared;
    if (!is_prepared) {
        setenv("XDG_CACHE_HOME", "/proc/none", 1);
        if (mkdtemp(folder) == NULL)
            abort();
        atexit(remove_folder);
        is_prepared = true;
    }
    if (bytes == 0)
        return 0;
    if (data[0] % 4 == 3)
        try_made_index(data + 1, bytes - 1);
    else if (data[0] % 4 == 2)
        try_kept_index(data + 1, bytes - 1);
    else
        try_shard(data + 1, bytes - 1, data[0] % 4 == 1);
    return 0;
}
