/* An index that is kept in a file: it equals one that is found by walking, and is never believed wrongly. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "formats/tfrecord.h"
#include "loader/shards/shard_index.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

static unsigned cuts;

int __real_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes);
int __wrap_ftruncate(int fd, off_t bytes)
{
    cuts++;
    return __real_ftruncate(fd, bytes);
}

static void assert_same_records(const struct shard_index *a, const struct shard_index *b)
{
    assert_int_equal(a->record_count, b->record_count);
    assert_int_equal(a->damage_count, b->damage_count);
    for (uint64_t i = 0; i < a->record_count; i++) {
        assert_int_equal(shard_index_find(a, i).offset, shard_index_find(b, i).offset);
        assert_int_equal(shard_index_find(a, i).payload_bytes, shard_index_find(b, i).payload_bytes);
    }
    for (uint64_t i = 0; i < a->damage_count; i++)
        assert_memory_equal(&a->damages[i], &b->damages[i], sizeof(*a->damages));
}

static const char *index_beside(const char *name)
{
    char hidden[128];
    snprintf(hidden, sizeof(hidden), ".%s" INDEX_FILE_SUFFIX, name);
    return fixture_path(folder, hidden);
}

TEST(a_kept_index_equals_a_walked_one)
{
    const char *path = fixture_path(folder, "kept");
    struct shard_index walked, written, kept;
    fixture_write_shard(path, 0, 500);
    fixture_assert_index_opens(&walked, path, false, false);
    assert_int_not_equal(access(index_beside("kept"), F_OK), 0);
    fixture_assert_index_opens(&written, path, false, true);
    assert_int_equal(access(index_beside("kept"), F_OK), 0);
    fixture_assert_index_opens(&kept, path, false, true);
    assert_same_records(&walked, &written);
    assert_same_records(&walked, &kept);
    shard_index_release(&walked);
    shard_index_release(&written);
    shard_index_release(&kept);
}

TEST(damages_are_never_kept)
{
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = fixture_three(data, ends);
    const char *path = fixture_path(folder, "damaged");
    char problem[1024];
    struct shard_index walked, kept, refused;
    data[ends[0] + 3] ^= 0x10;
    fixture_write(path, data, bytes);
    fixture_assert_index_opens(&walked, path, true, true);
    fixture_assert_index_opens(&kept, path, true, true);
    assert_int_equal(kept.damage_count, 1);
    assert_same_records(&walked, &kept);
    assert_int_not_equal(access(index_beside("damaged"), F_OK), 0);
    assert_int_equal(fixture_open_index(&refused, path, false, true, problem, sizeof(problem)), -EBADMSG);
    shard_index_release(&walked);
    shard_index_release(&kept);
}

TEST(a_stale_index_is_built_again)
{
    const char *path = fixture_path(folder, "stale");
    struct shard_index index;
    fixture_write_shard(path, 0, 20);
    fixture_assert_index_opens(&index, path, false, true);
    shard_index_release(&index);
    fixture_write_shard(path, 0, 30);
    fixture_assert_index_opens(&index, path, false, true);
    assert_int_equal(index.record_count, 30);
    shard_index_release(&index);

    /* Same size, other lengths, another time. */
    uint8_t data[4 * FIXTURE_FRAME_MAX], payload[64] = { 0 };
    size_t bytes = fixture_frame(payload, 10, data);
    bytes += fixture_frame(payload, 20, data + bytes);
    fixture_write(path, data, bytes);
    fixture_assert_index_opens(&index, path, false, true);
    assert_int_equal(shard_index_find(&index, 0).payload_bytes, 10);
    shard_index_release(&index);
    bytes = fixture_frame(payload, 20, data);
    bytes += fixture_frame(payload, 10, data + bytes);
    fixture_write(path, data, bytes);
    const struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    fixture_assert_index_opens(&index, path, false, true);
    assert_int_equal(shard_index_find(&index, 0).payload_bytes, 20);
    shard_index_release(&index);
}

static bool is_same_time(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec == other->tv_sec && one->tv_nsec == other->tv_nsec;
}

/* Write bytes of a shard in place, and give it the time it had; until the clock of the file system has ticked. */
static void write_in_place(const char *path, uint64_t offset, const void *bytes, size_t count)
{
    struct stat before, after;
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &before), 0);
    const struct timespec times[2] = { before.st_atim, before.st_mtim };
    do {
        assert_int_equal(pwrite(fd, bytes, count, (off_t)offset), (ssize_t)count);
        assert_int_equal(futimens(fd, times), 0);
        assert_int_equal(fstat(fd, &after), 0);
    } while (is_same_time(&after.st_ctim, &before.st_ctim));
    assert_true(is_same_time(&after.st_mtim, &before.st_mtim));
    close(fd);
}

/* How many of `count` records, which are written one by one with other checksums, change the contents. */
static uint32_t count_noticed(const char *path, uint32_t count)
{
    struct shard_index before, after;
    uint32_t noticed = 0;
    for (uint32_t i = 0; i < count; i++) {
        fixture_assert_index_opens(&before, path, false, true);
        const struct shard_record record = shard_index_find(&before, i);
        const uint32_t other = 0x1234567 + i;
        write_in_place(path, record.offset + TFRECORD_HEADER_BYTES + record.payload_bytes, &other, sizeof(other));
        fixture_assert_index_opens(&after, path, false, true);
        noticed += after.contents != before.contents;
        assert_same_records(&before, &after);
        shard_index_release(&before);
        shard_index_release(&after);
    }
    return noticed;
}

TEST(a_shard_written_in_place_at_the_same_time_is_noticed)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "in_place"));
    fixture_write_shard(path, 0, 1);
    assert_int_equal(count_noticed(path, 1), 1);
    fixture_write_shard(path, 0, SHARD_INDEX_SAMPLE);
    assert_int_equal(count_noticed(path, SHARD_INDEX_SAMPLE), SHARD_INDEX_SAMPLE);
    fixture_write_shard(path, 0, 4 * SHARD_INDEX_SAMPLE);
    assert_int_equal(count_noticed(path, 4 * SHARD_INDEX_SAMPLE), SHARD_INDEX_SAMPLE);
}

/* Until a change of the file would have another time than its last one. */
static void wait_for_tick(const char *path)
{
    struct stat status, other;
    const char *const probe = fixture_path(folder, "probe");
    assert_int_equal(stat(path, &status), 0);
    fixture_write(probe, "", 0);
    do {
        assert_int_equal(chmod(probe, 0600), 0);
        assert_int_equal(stat(probe, &other), 0);
    } while (is_same_time(&status.st_ctim, &other.st_ctim));
}

static ino_t inode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

/* The new index file is a new one, so its inode shows that it was written. */
TEST(another_time_of_change_alone_is_kept)
{
    char path[512], kept[512], link_path[512];
    struct shard_index index;
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "touched"));
    snprintf(link_path, sizeof(link_path), "%s", fixture_path(folder, "touched_link"));
    snprintf(kept, sizeof(kept), "%s", index_beside("touched"));
    fixture_write_shard(path, 0, 100);
    fixture_assert_index_opens(&index, path, false, true);
    const uint64_t contents = index.contents;
    shard_index_release(&index);
    for (int i = 0; i < 3; i++) {
        const int held = open(kept, O_RDONLY);          /* so that its inode is not used again */
        const ino_t before = inode_of(kept);
        wait_for_tick(path);
        assert_int_equal(i == 0 ? chmod(path, 0600) : i == 1 ? link(path, link_path) : unlink(link_path), 0);
        fixture_assert_index_opens(&index, path, false, true);
        assert_true(index.contents == contents && index.record_count == 100);
        shard_index_release(&index);
        const ino_t first = inode_of(kept);
        assert_true(first != before);
        fixture_assert_index_opens(&index, path, false, true);
        shard_index_release(&index);
        assert_true(inode_of(kept) == first);           /* it has the new time */
        close(held);
    }
}

/* An index that cannot be replaced has the old time for ever: the one in the cache has the new one. */
TEST(a_read_only_folder_keeps_the_time_of_change_in_the_cache)
{
    char path[512], kept[512];
    struct shard_index index;
    assert_int_equal(mkdir(fixture_path(folder, "locked"), 0700), 0);
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "locked/shard"));
    snprintf(kept, sizeof(kept), "%s", fixture_path(folder, "locked/.shard" INDEX_FILE_SUFFIX));
    fixture_write_shard(path, 0, 100);
    fixture_assert_index_opens(&index, path, false, true);
    shard_index_release(&index);
    wait_for_tick(path);
    assert_int_equal(chmod(path, 0400), 0);
    snprintf(kept + strlen(kept), sizeof(kept) - strlen(kept), ".tmp");
    assert_int_equal(mkdir(kept, 0700), 0);             /* in the way of writing, even for root */
    for (int i = 0; i < 2; i++) {
        struct shard_source *source;
        fixture_assert_index_opens(&index, path, false, true);
        assert_int_equal(shard_source_open(&source, NULL, path), 0);
        struct shard_index read = { .stamp = source->stamp };
        assert_int_equal(index_file_read(&read, source), 0);
        assert_true(read.stamp.ctime_ns == source->stamp.ctime_ns);
        assert_same_records(&index, &read);
        shard_source_close(source);
        shard_index_release(&read);
        shard_index_release(&index);
    }
}

/* Flip every byte, cut at every byte: the resulting index is right. */
TEST(a_damaged_index_is_built_again)
{
    const char *path = fixture_path(folder, "shard");
    struct shard_index right;
    fixture_write_shard(path, 0, 9);
    fixture_assert_index_opens(&right, path, false, true);
    size_t bytes;
    char kept[512];
    snprintf(kept, sizeof(kept), "%s", index_beside("shard"));
    uint8_t *data = fixture_read(kept, &bytes);
    for (size_t i = 0; i < 2 * bytes; i++) {
        struct shard_index index;
        const size_t at = i % bytes;
        const uint8_t flip = i < bytes ? (uint8_t)(1u << at % 8) : 0;
        data[at] ^= flip;
        (void)unlink(kept);     /* overwriting waits for the disk */
        fixture_write(kept, data, i < bytes ? bytes : at);
        data[at] ^= flip;
        fixture_assert_index_opens(&index, path, false, true);
        assert_same_records(&right, &index);
        shard_index_release(&index);
    }
    free(data);
    shard_index_release(&right);
}

/* Of the same size, and with as many records. */
TEST(the_index_of_another_shard_is_built_again)
{
    const uint32_t lengths[] = { 10, 20 };
    const uint8_t payload[32] = { 0 };
    uint8_t data[2][FIXTURE_FRAME_MAX], *kept;
    struct shard_index index;
    size_t bytes, kept_bytes;
    for (uint32_t i = 0; i < 2; i++) {
        bytes = fixture_frame(payload, lengths[i], data[i]);
        bytes += fixture_frame(payload, lengths[1 - i], data[i] + bytes);
    }
    fixture_write(fixture_path(folder, "one"), data[0], bytes);
    fixture_write(fixture_path(folder, "other"), data[1], bytes);
    fixture_assert_index_opens(&index, fixture_path(folder, "other"), false, true);
    shard_index_release(&index);
    kept = fixture_read(index_beside("other"), &kept_bytes);
    fixture_write(index_beside("one"), kept, kept_bytes);
    fixture_assert_index_opens(&index, fixture_path(folder, "one"), false, true);
    assert_int_equal(shard_index_find(&index, 0).payload_bytes, lengths[0]);
    assert_int_equal(shard_index_find(&index, 1).payload_bytes, lengths[1]);
    shard_index_release(&index);
    free(kept);
}

/* Two exchanged lengths do not change the sum: only the checksum shows it. */
TEST(an_index_with_swapped_lengths_is_built_again)
{
    const char *path = fixture_path(folder, "swapped");
    struct shard_index right, index;
    fixture_write_shard(path, 0, 2);
    fixture_assert_index_opens(&right, path, false, true);
    assert_int_not_equal(shard_index_find(&right, 0).payload_bytes, shard_index_find(&right, 1).payload_bytes);
    size_t bytes;
    char kept[512];
    snprintf(kept, sizeof(kept), "%s", index_beside("swapped"));
    uint8_t *data = fixture_read(kept, &bytes);
    memcpy(data + bytes - 8, &right.lengths[1], 4);
    memcpy(data + bytes - 4, &right.lengths[0], 4);
    fixture_write(kept, data, bytes);
    fixture_assert_index_opens(&index, path, false, true);
    assert_same_records(&right, &index);
    shard_index_release(&right);
    shard_index_release(&index);
    free(data);
}

/* Make the checksum of an index file right again. */
static void sum_again(uint8_t *data, size_t bytes)
{
    const size_t at = 16;       /* after the magic, the version and the byte order */
    memset(data + at, 0, sizeof(uint64_t));
    const uint64_t sum = XXH3_64bits(data, bytes);
    memcpy(data + at, &sum, sizeof(sum));
}

/* The kept index of a shard of 9 records, with the border between records `first` and the next moved, and a right
 * checksum. */
static void forge_lengths(const char *name, uint32_t first, int32_t move)
{
    size_t bytes;
    uint32_t lengths[2];
    uint8_t *const data = fixture_read(index_beside(name), &bytes);
    uint8_t *const at = data + bytes - (9 - first) * sizeof(uint32_t);
    memcpy(lengths, at, sizeof(lengths));
    lengths[0] += (uint32_t)move;
    lengths[1] -= (uint32_t)move;
    memcpy(at, lengths, sizeof(lengths));
    sum_again(data, bytes);
    fixture_write(index_beside(name), data, bytes);
    free(data);
}

/* An index with a right hash and wrong contents. A wrong beginning or end is noticed when it is opened, the rest when a
 * record does not verify. */
TEST(a_forged_index_is_dropped)
{
    static const int32_t moves[] = { 1, -1, 5, -5 };
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "forged"));
    struct shard_index right, index;
    struct shard_source *source;
    fixture_write_shard(path, 0, 9);
    fixture_assert_index_opens(&right, path, false, true);
    for (uint32_t i = 0; i < 8 * 4; i++) {
        const uint32_t first = i % 8;
        forge_lengths("forged", first, moves[i / 8]);
        fixture_assert_index_opens(&index, path, false, true);
        if (first > 0 && first < 7) {
            assert_int_equal(shard_source_open(&source, NULL, path), 0);
            assert_int_equal(shard_index_prove(&index, source), -ESTALE);
            assert_int_equal(shard_index_prove(&index, source), 0);
            assert_int_not_equal(access(index_beside("forged"), F_OK), 0);
            shard_source_close(source);
            shard_index_release(&index);
            fixture_assert_index_opens(&index, path, false, true);
        }
        assert_same_records(&right, &index);
        shard_index_release(&index);
    }
    shard_index_release(&right);
}

/* The kept index of a shard of 9 records that takes `count` records from `first` on for one, with a right checksum. */
static void forge_union(const char *name, uint32_t first, uint32_t count)
{
    size_t bytes;
    uint8_t *const data = fixture_read(index_beside(name), &bytes);
    const size_t header = bytes - 9 * sizeof(uint32_t);
    uint8_t *const at = data + header + first * sizeof(uint32_t);
    uint32_t sum = (count - 1) * (uint32_t)TFRECORD_FRAME_BYTES;
    uint64_t records;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length;
        memcpy(&length, at + i * sizeof(length), sizeof(length));
        sum += length;
    }
    memcpy(at, &sum, sizeof(sum));
    memmove(at + sizeof(sum), at + count * sizeof(sum), (9 - first - count) * sizeof(sum));
    memcpy(&records, data + header - 2 * sizeof(records), sizeof(records));
    assert_int_equal(records, 9);
    records -= count - 1;
    memcpy(data + header - 2 * sizeof(records), &records, sizeof(records));
    bytes -= (count - 1) * sizeof(sum);
    sum_again(data, bytes);
    fixture_write(index_beside(name), data, bytes);
    free(data);
}

/* The set opens whatever a file beside its shard says, also where the description contradicts the index. */
TEST(no_forged_index_keeps_a_set_from_opening)
{
    static const char manifest[] = "{\"splits\": {\"train\": {\"shards\": [{\"file\": \"whole.tfrecord\", "
                                   "\"records\": 9}]}}}";
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "whole.tfrecord"));
    struct dataset_options options = fixture_options(path);
    options.use_index_cache = true;
    fixture_write_shard(path, 0, 9);
    for (int has_manifest = 0; has_manifest < 2; has_manifest++) {
        if (has_manifest)
            fixture_write(fixture_path(folder, "dataset.json"), manifest, sizeof(manifest) - 1);
        for (uint32_t first = 1; first < 7; first++) {
            dataset_close(fixture_open(&options));
            forge_union("whole.tfrecord", first, has_manifest ? 2 : 1 + first % 2);
            struct dataset *const dataset = fixture_open(&options);
            assert_true(!has_manifest || dataset->record_count == 9);
            dataset_close(dataset);
            assert_int_equal(unlink(index_beside("whole.tfrecord")), 0);
        }
    }
    assert_int_equal(unlink(fixture_path(folder, "dataset.json")), 0);
}

TEST(damages_in_a_forged_index_lose_nothing)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "claimed"));
    struct shard_index right, index;
    uint64_t counts[2];
    size_t bytes;
    fixture_write_shard(path, 0, 9);
    fixture_assert_index_opens(&right, path, false, true);
    uint8_t *const data = fixture_read(index_beside("claimed"), &bytes);
    uint8_t *const forged = calloc(1, bytes + 16);
    const size_t header = bytes - 9 * sizeof(uint32_t);
    memcpy(forged, data, header);
    memcpy(counts, data + header - sizeof(counts), sizeof(counts));
    assert_int_equal(counts[0], 9);
    memcpy(forged + header - sizeof(counts), &(uint64_t[]){ 8, 1 }, sizeof(counts));
    memcpy(forged + header, data + header + sizeof(uint32_t), 8 * sizeof(uint32_t));
    const uint64_t damage[2] = { 0, shard_index_find(&right, 1).offset };      /* in place of the first record */
    memcpy(forged + header + 8 * sizeof(uint32_t), damage, sizeof(damage));
    bytes += sizeof(damage) - sizeof(uint32_t);
    sum_again(forged, bytes);
    fixture_write(index_beside("claimed"), forged, bytes);
    fixture_assert_index_opens(&index, path, true, true);
    assert_same_records(&right, &index);
    shard_index_release(&index);
    shard_index_release(&right);
    free(forged);
    free(data);
}

/* The kept index of a shard of two records of 3 and 0 bytes with other contents, and a right checksum. */
struct made_index {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t checksum;
    struct shard_stamp stamp;
    uint64_t stream_bytes, contents, sample, record_count, damage_count;
    uint32_t lengths[2];
    uint64_t damages[4];        /* in front of which record, bytes; twice */
};

static void keep_made_index(const char *kept, struct made_index *made, const uint64_t parts[7])
{
    made->stream_bytes = parts[0];
    made->record_count = 2;
    made->damage_count = 2;
    made->lengths[0] = (uint32_t)parts[1];
    made->lengths[1] = (uint32_t)parts[2];
    memcpy(made->damages, &parts[3], sizeof(made->damages));
    made->checksum = 0;
    made->checksum = XXH3_64bits(made, sizeof(*made));
    (void)unlink(kept);
    fixture_write(kept, made, sizeof(*made));
}

TEST(an_index_that_leads_out_of_the_shard_is_built_again)
{
    static const uint64_t cases[][7] = {
        /* stream, two lengths, damages; 48 bytes: records of 19 and 16, damages of 6 and 7 fit */
        { 48, 3, 0, 0, UINT64_MAX - 9, 2, 23 },
        { 48, 3, 0, 0, 1ull << 63, 2, (1ull << 63) + 13 },
        { 48, 3, 0, 1, 13, 2, 0 },
        { 48, 3, 0, 2, 6, 1, 7 },
        { 48, 3, 0, 0, 6, 3, 7 },
        { 48, 0xfffffff0, 0, 0, 6, 1, 7 },
        { 48, 3, 60, 0, 6, 1, UINT64_MAX - 52 },
        { 49, 3, 0, 0, 6, 1, 8 },
        { 1ull << 40, 3, 0, 0, 6, 2, (1ull << 40) - 41 },
    };
    const char *path = fixture_path(folder, "led");
    uint8_t data[48] = { 0 };
    struct shard_index right, index;
    memset(data, 0xff, sizeof(data));
    tfrecord_write_header(3, data + 6);
    tfrecord_write_footer(data + 18, 3, data + 21);
    tfrecord_write_header(0, data + 25);
    tfrecord_write_footer(data + 37, 0, data + 37);
    fixture_write(path, data, sizeof(data));
    fixture_assert_index_opens(&right, path, true, true);
    assert_int_equal(right.record_count, 2);
    index_file_write(&right, path);     /* an index with damages, which is not kept by itself */
    char kept[512];
    snprintf(kept, sizeof(kept), "%s", index_beside("led"));
    size_t bytes;
    uint8_t *const kept_data = fixture_read(kept, &bytes);
    struct made_index made;
    assert_int_equal(bytes, sizeof(made));
    memcpy(&made, kept_data, sizeof(made));
    free(kept_data);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        keep_made_index(kept, &made, cases[i]);
        fixture_assert_index_opens(&index, path, true, true);
        assert_same_records(&right, &index);
        shard_index_release(&index);
    }
    shard_index_release(&right);
}

/* A right checksum, and records that are all as it says: but it ends before the shard does. */
TEST(an_index_of_the_first_records_is_built_again)
{
    char path[512], kept[512];
    struct shard_index right, index;
    size_t bytes;
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "begun"));
    snprintf(kept, sizeof(kept), "%s", index_beside("begun"));
    fixture_write_shard(path, 0, 9);
    fixture_assert_index_opens(&right, path, false, true);
    uint8_t *const data = fixture_read(kept, &bytes);
    for (uint64_t count = 0; count < 9; count++) {
        memcpy(data + offsetof(struct made_index, stream_bytes), &(uint64_t){ shard_index_find(&right, count).offset }, sizeof(uint64_t));
        memcpy(data + offsetof(struct made_index, record_count), &count, sizeof(count));
        bytes = offsetof(struct made_index, lengths) + (size_t)count * sizeof(uint32_t);
        sum_again(data, bytes);
        (void)unlink(kept);
        fixture_write(kept, data, bytes);
        fixture_assert_index_opens(&index, path, false, true);
        assert_same_records(&right, &index);
        shard_index_release(&index);
    }
    shard_index_release(&right);
    free(data);
}

TEST(a_large_file_in_place_of_an_index_is_not_read)
{
    const off_t large = (off_t)256 << 20;
    const char *path = fixture_path(folder, "sparse");
    struct shard_index index;
    struct rusage before, after;
    fixture_write_shard(path, 0, 7);
    fixture_write(index_beside("sparse"), "", 0);
    assert_int_equal(truncate(index_beside("sparse"), large), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    fixture_assert_index_opens(&index, path, false, true);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_int_equal(index.record_count, 7);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    shard_index_release(&index);
}

/* 0 when there is no such directory. */
static uint32_t count_files(const char *path)
{
    DIR *entries = opendir(path);
    uint32_t count = 0;
    for (struct dirent *entry = entries != NULL ? readdir(entries) : NULL; entry != NULL; entry = readdir(entries))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (entries != NULL)
        closedir(entries);
    return count;
}

/* A directory in place of the index file acts as a folder that is not writable, even for root. */
TEST(the_cache_directory_is_used_if_the_folder_is_not_writable)
{
    const char *path = fixture_path(folder, "elsewhere");
    struct shard_index first, second;
    fixture_write_shard(path, 0, 7);
    assert_int_equal(mkdir(index_beside("elsewhere"), 0700), 0);
    const uint32_t before = count_files(fixture_path(folder, "cache/pipetrain"));
    fixture_assert_index_opens(&first, path, false, true);
    assert_int_equal(count_files(fixture_path(folder, "cache/pipetrain")), before + 1);
    fixture_assert_index_opens(&second, path, false, true);
    assert_same_records(&first, &second);
    shard_index_release(&first);
    shard_index_release(&second);
}

TEST(no_place_for_an_index_is_no_error)
{
    const char *path = fixture_path(folder, "nowhere");
    struct shard_index index;
    fixture_write_shard(path, 0, 7);
    assert_int_equal(mkdir(index_beside("nowhere"), 0700), 0);
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    fixture_assert_index_opens(&index, path, false, true);
    assert_int_equal(index.record_count, 7);
    shard_index_release(&index);
    setenv("XDG_CACHE_HOME", fixture_path(folder, "cache"), 1);
}

TEST(no_other_file_than_the_index_remains)
{
    const char *path = fixture_path(folder, "tidy/shard");
    struct shard_index index;
    assert_int_equal(mkdir(fixture_path(folder, "tidy"), 0700), 0);
    fixture_write_shard(path, 0, 7);
    fixture_assert_index_opens(&index, path, false, true);
    shard_index_release(&index);
    assert_int_equal(count_files(fixture_path(folder, "tidy")), 2);
}

/* The state after a process was killed between writing an index and renaming it. */
TEST(the_unfinished_index_of_a_dead_process_is_reused)
{
    struct shard_index index, kept;
    char left[512], path[512];
    assert_int_equal(mkdir(fixture_path(folder, "died"), 0700), 0);
    snprintf(left, sizeof(left), "%s", fixture_path(folder, "died/.shard" INDEX_FILE_SUFFIX ".tmp"));
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "died/shard"));
    fixture_write_shard(path, 0, 7);
    fixture_write(left, "more than the index will be, or half of it", 42);
    const int fd = open(left, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);        /* it is alive and writes */
    fixture_assert_index_opens(&index, path, false, true);
    shard_index_release(&index);
    assert_int_equal(access(fixture_path(folder, "died/.shard" INDEX_FILE_SUFFIX), F_OK), -1);
    assert_int_equal(count_files(fixture_path(folder, "died")), 2);
    close(fd);                                      /* it died */
    fixture_assert_index_opens(&index, path, false, true);
    assert_int_equal(count_files(fixture_path(folder, "died")), 2);
    assert_int_equal(access(fixture_path(folder, "died/.shard" INDEX_FILE_SUFFIX), F_OK), 0);
    fixture_assert_index_opens(&kept, path, false, true);
    assert_same_records(&index, &kept);
    shard_index_release(&index);
    shard_index_release(&kept);
}

/* File systems write a file that was cut at once when it is closed: ten thousand new indexes would wait for the
 * disk. */
TEST(an_index_is_truncated_only_if_it_was_longer)
{
    static const uint8_t left[4096];
    struct shard_index index;
    struct stat first, second;
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "uncut"));
    fixture_write_shard(path, 0, 3);
    cuts = 0;
    fixture_assert_index_opens(&index, path, false, true);
    shard_index_release(&index);
    assert_int_equal(stat(index_beside("uncut"), &first), 0);
    assert_int_equal(cuts, 0);
    assert_int_equal(unlink(index_beside("uncut")), 0);
    fixture_write(fixture_path(folder, ".uncut" INDEX_FILE_SUFFIX ".tmp"), left, sizeof(left));
    fixture_assert_index_opens(&index, path, false, true);
    shard_index_release(&index);
    assert_int_equal(stat(index_beside("uncut"), &second), 0);
    assert_int_equal(second.st_size, first.st_size);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
