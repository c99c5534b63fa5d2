/* The index of a shard: what it finds, what it refuses, and that a kept index is never
 * believed wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "formats/crc32c.h"
#include "formats/tfrecord.h"
#include "loader/shards/index_file.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/stretch_sums.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/memory_source.h"
#include "tests/helpers/tfrecord_fixture.h"

static int open_index(struct shard_index *index, const char *path, bool skip_damage, bool use_cache, char *problem,
                      size_t problem_size)
{
    const struct shard_index_options options = { .skip_damage = skip_damage, .use_cache = use_cache };
    struct shard_source *source;
    assert_int_equal(shard_source_open(&source, NULL, path), 0);
    problem[0] = '\0';
    const int rc = shard_index_open(index, source, &options, problem, problem_size);
    shard_source_close(source);
    return rc;
}

static void assert_opens(struct shard_index *index, const char *path, bool skip_damage, bool use_cache)
{
    char problem[1024];
    if (open_index(index, path, skip_damage, use_cache, problem, sizeof(problem)) < 0)
        fail_msg("%s", problem);
}

/* Opening `data` as a shard fails with a message that holds `part`. */
static void assert_refuses(const void *data, size_t bytes, const char *part)
{
    const char *path = fixture_path(folder, "bad");
    struct shard_index index;
    char problem[1024];
    fixture_write(path, data, bytes);
    assert_true(open_index(&index, path, false, false, problem, sizeof(problem)) < 0);
    if (strstr(problem, part) == NULL || strstr(problem, path) == NULL)
        fail_msg("'%s' does not hold '%s'", problem, part);
}

static void assert_same_records(const struct shard_index *a, const struct shard_index *b)
{
    assert_int_equal(a->record_count, b->record_count);
    assert_int_equal(a->damage_count, b->damage_count);
    for (uint64_t i = 0; i < a->record_count; i++) {
        assert_int_equal(a->records[i].offset, b->records[i].offset);
        assert_int_equal(a->records[i].payload_bytes, b->records[i].payload_bytes);
    }
    for (uint64_t i = 0; i < a->damage_count; i++)
        assert_memory_equal(&a->damages[i], &b->damages[i], sizeof(*a->damages));
}

/* Records of many lengths around the sizes of the walk's windows. */
static void finds_records_of_any_length(void **state)
{
    (void)state;
    const size_t lengths[] = { 0, 1, 4079, 4080, 4081, 40000, 3, (1u << 20) - 16, 1u << 20, 5, 32768, 32769, 0, 100 };
    const size_t count = sizeof(lengths) / sizeof(*lengths);
    uint8_t *data = calloc(1, 4u << 20);
    uint8_t *payload = calloc(1, 1u << 20);
    size_t offsets[sizeof(lengths) / sizeof(*lengths)], bytes = 0;
    for (size_t i = 0; i < count; i++) {
        offsets[i] = bytes;
        bytes += fixture_frame(payload, lengths[i], data + bytes);
    }
    const char *path = fixture_path(folder, "lengths");
    struct shard_index index;
    fixture_write(path, data, bytes);
    assert_opens(&index, path, false, false);
    assert_int_equal(index.record_count, count);
    assert_int_equal(index.bytes, bytes);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(index.records[i].offset, offsets[i]);
        assert_int_equal(index.records[i].payload_bytes, lengths[i]);
    }
    shard_index_release(&index);
    free(payload);
    free(data);
}

static void an_empty_file_has_no_records(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "empty");
    struct shard_index index;
    fixture_write(path, "", 0);
    assert_opens(&index, path, false, false);
    assert_int_equal(index.record_count, 0);
    assert_int_equal(index.damage_count, 0);
    shard_index_release(&index);
}

static size_t make_three(uint8_t *data, size_t ends[3])
{
    size_t bytes = 0;
    for (uint64_t id = 0; id < 3; id++) {
        bytes += fixture_record(id, data + bytes);
        ends[id] = bytes;
    }
    return bytes;
}

/* A cut between records leaves a whole, shorter shard. */
static void names_a_cut_at_any_byte(void **state)
{
    (void)state;
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = make_three(data, ends);
    for (size_t cut = 0; cut < bytes; cut++) {
        const uint64_t whole = cut >= ends[1] ? 2 : cut >= ends[0];
        const size_t begins = whole ? ends[whole - 1] : 0;
        const char *path = fixture_path(folder, "cut");
        char problem[1024], wanted[64];
        struct shard_index index;
        fixture_write(path, data, cut);
        const int rc = open_index(&index, path, false, false, problem, sizeof(problem));
        snprintf(wanted, sizeof(wanted), "record %d at byte %zu: record is cut short", (int)whole, begins);
        if (cut == begins) {
            assert_int_equal(rc, 0);
            assert_int_equal(index.record_count, whole);
            shard_index_release(&index);
        } else {
            assert_int_equal(rc, -EBADMSG);
            assert_non_null(strstr(problem, wanted));
        }
    }
}

static void a_cut_costs_only_the_last_record_when_skipping(void **state)
{
    (void)state;
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = make_three(data, ends);
    for (size_t cut = ends[0]; cut < bytes; cut++) {
        const uint64_t whole = cut >= ends[1] ? 2 : 1;
        const char *path = fixture_path(folder, "cut");
        struct shard_index index;
        fixture_write(path, data, cut);
        assert_opens(&index, path, true, false);
        assert_int_equal(index.record_count, whole);
        assert_int_equal(index.damage_count, cut != ends[whole - 1]);
        shard_index_release(&index);
    }
}

/* Every bit of every header: found without skipping, and with it only that record is lost. */
static void resynchronizes_after_any_flipped_header_bit(void **state)
{
    (void)state;
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = make_three(data, ends);
    for (int record = 0; record < 3; record++) {
        const size_t begins = record ? ends[record - 1] : 0;
        for (size_t bit = 0; bit < 8 * TFRECORD_HEADER_BYTES; bit++) {
            const char *path = fixture_path(folder, "flipped");
            char problem[1024], wanted[64];
            struct shard_index index;
            data[begins + bit / 8] ^= (uint8_t)(1u << bit % 8);
            (void)unlink(path);
            fixture_write(path, data, bytes);
            data[begins + bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(open_index(&index, path, false, false, problem, sizeof(problem)), -EBADMSG);
            snprintf(wanted, sizeof(wanted), "record %d at byte %zu", record, begins);
            assert_non_null(strstr(problem, wanted));
            assert_opens(&index, path, true, false);
            assert_int_equal(index.record_count, 2);
            assert_int_equal(index.damage_count, 1);
            assert_int_equal(index.damages[0].offset, begins);
            assert_int_equal(index.damages[0].bytes, ends[record] - begins);
            assert_int_equal(index.damages[0].before_record, record);
            shard_index_release(&index);
        }
    }
}

/* Row by row what looks like the header of a record that ends at the shard's end, then a good record. */
static size_t make_false_headers(uint8_t *data, size_t bytes)
{
    size_t at = 0;
    memset(data, 0x5a, bytes);
    for (; at + 100 < bytes; at += TFRECORD_HEADER_BYTES)
        tfrecord_write_header(bytes - at - TFRECORD_FRAME_BYTES, data + at);
    tfrecord_write_header(bytes - at - TFRECORD_FRAME_BYTES, data + at);
    tfrecord_write_footer(data + at + TFRECORD_HEADER_BYTES, bytes - at - TFRECORD_FRAME_BYTES,
                          data + bytes - TFRECORD_FOOTER_BYTES);
    return at;
}

static void what_looks_like_headers_is_read_in_proportion_to_its_length(void **state)
{
    (void)state;
    const size_t bytes = (size_t)512 << 10;
    uint8_t *const data = malloc(bytes);
    assert_non_null(data);
    const size_t good = make_false_headers(data, bytes);
    struct memory_shard shard = { .name = "false", .data = data, .bytes = bytes };
    struct shard_source *source;
    struct shard_index index;
    const struct shard_index_options options = { .skip_damage = true };
    char problem[512];
    memory_source_set(&shard, 1);
    assert_int_equal(shard_source_open(&source, &memory_source_ops, "false"), 0);
    data[0] ^= 1;
    assert_int_equal(shard_index_open(&index, source, &options, problem, sizeof(problem)), 0);
    assert_int_equal(index.record_count, 1);
    assert_int_equal(index.records[0].offset, good);
    assert_int_equal(index.damage_count, 1);
    assert_true(shard.given < 200 * bytes);
    shard_index_release(&index);
    shard_source_close(source);
    free(data);
}

/* Three records, and zeros behind them. */
static uint8_t *make_zero_tail(struct memory_shard *shard, size_t bytes)
{
    uint8_t *const data = calloc(1, bytes);
    size_t ends[3];
    assert_non_null(data);
    make_three(data, ends);
    *shard = (struct memory_shard){ .name = "tail", .data = data, .bytes = bytes };
    memory_source_set(shard, 1);
    return data;
}

/* The result of indexing what memory_source_set gave, with what it said. */
static int index_tail(const struct shard_index_options *options, char *problem, size_t problem_size, char *told,
                      size_t told_size)
{
    struct shard_source *source;
    struct shard_index index;
    struct capture capture;
    assert_int_equal(shard_source_open(&source, &memory_source_ops, "tail"), 0);
    capture_begin(&capture);
    const int rc = shard_index_open(&index, source, options, problem, problem_size);
    capture_end(&capture, told, told_size);
    if (rc == 0)
        shard_index_release(&index);
    shard_source_close(source);
    return rc;
}

static void a_search_for_records_ends_once_it_is_unwanted(void **state)
{
    (void)state;
    atomic_bool is_unwanted = false;
    struct memory_shard shard;
    uint8_t *const data = make_zero_tail(&shard, (size_t)8 << 20);
    const struct shard_index_options options = { .skip_damage = true, .what = "train", .is_unwanted = &is_unwanted };
    char problem[256] = "", told[256];
    shard.raised = &is_unwanted;
    shard.raised_at = 2;
    assert_int_equal(index_tail(&options, problem, sizeof(problem), told, sizeof(told)), -ECANCELED);
    assert_int_equal(shard.read, 2);
    assert_string_equal(problem, "");
    assert_string_equal(told, "");
    free(data);
}

static void a_long_search_for_records_is_told_once(void **state)
{
    (void)state;
    struct memory_shard shard;
    uint8_t *const data = make_zero_tail(&shard, (size_t)66 << 20);
    const struct shard_index_options options = { .skip_damage = true, .what = "train" };
    char problem[256], told[512], line[128];
    size_t ends[3];
    snprintf(line, sizeof(line), "train: tail: looking for the next record behind byte %zu\n", make_three(data, ends));
    assert_int_equal(index_tail(&options, problem, sizeof(problem), told, sizeof(told)), 0);
    assert_string_equal(told, line);
    free(data);
}

static void a_long_sum_ends_once_it_is_unwanted(void **state)
{
    (void)state;
    atomic_bool is_unwanted = false;
    struct memory_shard shard;
    uint8_t *const data = make_zero_tail(&shard, (size_t)4 << 20);
    struct shard_source *source;
    uint32_t crc;
    assert_int_equal(shard_source_open(&source, &memory_source_ops, "tail"), 0);
    struct stretch_sums sums = { .source = source, .is_unwanted = &is_unwanted };
    shard.raised = &is_unwanted;
    shard.raised_at = 3;
    assert_int_equal(stretch_sums_find(&sums, 0, (size_t)4 << 20, &crc), -ECANCELED);
    assert_int_equal(shard.read, 3);
    stretch_sums_release(&sums);
    shard_source_close(source);
    free(data);
}

static void sums_of_stretches_are_those_of_their_bytes(void **state)
{
    (void)state;
    static uint8_t data[40000];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * i >> 5);
    struct memory_shard shard = { .name = "sums", .data = data, .bytes = sizeof(data), .piece = 3000 };
    struct shard_source *source;
    memory_source_set(&shard, 1);
    assert_int_equal(shard_source_open(&source, &memory_source_ops, "sums"), 0);
    struct stretch_sums sums = { .source = source };
    uint32_t crc;
    for (size_t offset = 5; offset < sizeof(data); offset += 1 + offset / 7) {
        for (size_t bytes = 0; bytes <= sizeof(data) - offset; bytes = bytes * 3 / 2 + 1) {
            assert_int_equal(stretch_sums_find(&sums, offset, bytes, &crc), 0);
            assert_int_equal(crc, crc32c(data + offset, bytes));
        }
    }
    assert_int_equal(stretch_sums_find(&sums, 100, sizeof(data), &crc), -ESTALE);
    assert_int_equal(stretch_sums_find(&sums, 100, 3, &crc), 0);
    assert_int_equal(crc, crc32c(data + 100, 3));
    stretch_sums_release(&sums);
    shard_source_close(source);
}

static void refuses_absurd_lengths_without_allocating(void **state)
{
    (void)state;
    const uint64_t lengths[] = { TFRECORD_PAYLOAD_MAX, TFRECORD_PAYLOAD_MAX + 1ull, 0x7fffffff, UINT64_C(1) << 32,
                                 UINT64_C(1) << 63, UINT64_MAX - 15, UINT64_MAX };
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        uint8_t data[100] = { 0 };
        tfrecord_write_header(lengths[i], data);
        assert_refuses(data, sizeof(data), "record 0 at byte 0: ");
    }
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 32 * 1024);
}

static void names_what_a_foreign_file_is(void **state)
{
    (void)state;
    uint8_t zeros[4096] = { 0 };
    assert_refuses("\x1f\x8b\x08\0\0\0\0\0\0\x13\xb5\x5d\x7b", 13, "the gzip data are damaged near compressed byte 13");
    assert_refuses("\x78\x9c\xb5\x5d\x7b\x5c\x96\x45\x16\x46\x5c\x2f\x20", 13, "zlib");
    assert_refuses("\x04\x22\x4d\x18\x60\x40\x82\x45\x16\x46\x5c\x2f\x20", 13, "the LZ4 data are damaged near");
    assert_refuses("\x28\xb5\x2f\xfd\x24\x0a\x51\0\0more", 13, "zstd -d");
    assert_refuses("\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0", 14, "image file");
    assert_refuses("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "image file");
    assert_refuses("<!DOCTYPE html><html></html>", 28, "HTML");
    assert_refuses("version https://git-lfs.github.com/spec/v1\n", 43, "git lfs pull");
    assert_refuses("just a few words\n", 17, "text file");
    assert_refuses("PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0", 14, "zip archive");
    assert_refuses("\0\0\x08\x03\0\0\xea\x60\0\0\0\x1c\0\0\0\x1c", 16, "IDX");
    assert_refuses(zeros, sizeof(zeros), "zeros");
    assert_refuses("\x01\x02\x03", 3, "record 0 at byte 0: record is cut short (needs 12 bytes, 3 are left)");
}

static void a_file_without_any_record_is_refused_when_skipping_too(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "foreign");
    char problem[1024];
    struct shard_index index;
    fixture_write(path, "<html>no such page, and no record either</html>", 47);
    assert_int_equal(open_index(&index, path, true, false, problem, sizeof(problem)), -ENOTSUP);
    assert_non_null(strstr(problem, "HTML"));
}

static void control_characters_in_names_are_escaped(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "a\x1b[31m\nname");
    char problem[1024];
    struct shard_index index;
    fixture_write(path, "x", 1);
    assert_true(open_index(&index, path, false, false, problem, sizeof(problem)) < 0);
    assert_null(strpbrk(problem, "\x1b\n"));
    assert_non_null(strstr(problem, "\\x1b"));
}

/* Kept indexes. */

static const char *index_beside(const char *name)
{
    char hidden[128];
    snprintf(hidden, sizeof(hidden), ".%s" INDEX_FILE_SUFFIX, name);
    return fixture_path(folder, hidden);
}

static void a_kept_index_equals_a_walked_one(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "kept");
    struct shard_index walked, written, kept;
    fixture_write_shard(path, 0, 500);
    assert_opens(&walked, path, false, false);
    assert_int_not_equal(access(index_beside("kept"), F_OK), 0);
    assert_opens(&written, path, false, true);
    assert_int_equal(access(index_beside("kept"), F_OK), 0);
    assert_opens(&kept, path, false, true);
    assert_same_records(&walked, &written);
    assert_same_records(&walked, &kept);
    shard_index_release(&walked);
    shard_index_release(&written);
    shard_index_release(&kept);
}

static void a_kept_index_holds_damages_but_never_hides_them(void **state)
{
    (void)state;
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = make_three(data, ends);
    const char *path = fixture_path(folder, "damaged");
    char problem[1024];
    struct shard_index walked, kept, refused;
    data[ends[0] + 3] ^= 0x10;
    fixture_write(path, data, bytes);
    assert_opens(&walked, path, true, true);
    assert_opens(&kept, path, true, true);
    assert_int_equal(kept.damage_count, 1);
    assert_same_records(&walked, &kept);
    assert_int_equal(open_index(&refused, path, false, true, problem, sizeof(problem)), -EBADMSG);
    shard_index_release(&walked);
    shard_index_release(&kept);
}

static void a_stale_index_is_built_again(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "stale");
    struct shard_index index;
    fixture_write_shard(path, 0, 20);
    assert_opens(&index, path, false, true);
    shard_index_release(&index);
    fixture_write_shard(path, 0, 30);
    assert_opens(&index, path, false, true);
    assert_int_equal(index.record_count, 30);
    shard_index_release(&index);

    /* Same size, other lengths, another time. */
    uint8_t data[4 * FIXTURE_FRAME_MAX], payload[64] = { 0 };
    size_t bytes = fixture_frame(payload, 10, data);
    bytes += fixture_frame(payload, 20, data + bytes);
    fixture_write(path, data, bytes);
    assert_opens(&index, path, false, true);
    assert_int_equal(index.records[0].payload_bytes, 10);
    shard_index_release(&index);
    bytes = fixture_frame(payload, 20, data);
    bytes += fixture_frame(payload, 10, data + bytes);
    fixture_write(path, data, bytes);
    const struct timespec times[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_opens(&index, path, false, true);
    assert_int_equal(index.records[0].payload_bytes, 20);
    shard_index_release(&index);
}

/* Flip every byte, cut at every byte: the index that comes out is right. */
static void a_damaged_index_is_built_again(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "shard");
    struct shard_index right;
    fixture_write_shard(path, 0, 9);
    assert_opens(&right, path, false, true);
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
        assert_opens(&index, path, false, true);
        assert_same_records(&right, &index);
        shard_index_release(&index);
    }
    free(data);
    shard_index_release(&right);
}

/* Two lengths that change places keep the sum right: only the checksum tells. */
static void an_index_with_swapped_lengths_is_built_again(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "swapped");
    struct shard_index right, index;
    fixture_write_shard(path, 0, 2);
    assert_opens(&right, path, false, true);
    assert_int_not_equal(right.records[0].payload_bytes, right.records[1].payload_bytes);
    size_t bytes;
    char kept[512];
    snprintf(kept, sizeof(kept), "%s", index_beside("swapped"));
    uint8_t *data = fixture_read(kept, &bytes);
    memcpy(data + bytes - 8, &right.records[1].payload_bytes, 4);
    memcpy(data + bytes - 4, &right.records[0].payload_bytes, 4);
    fixture_write(kept, data, bytes);
    assert_opens(&index, path, false, true);
    assert_same_records(&right, &index);
    shard_index_release(&right);
    shard_index_release(&index);
    free(data);
}

/* The kept index of a shard of two records of 3 and 0 bytes with other contents, and a right checksum. */
struct made_index {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t checksum;
    struct shard_stamp stamp;
    uint64_t stream_bytes, record_count, damage_count;
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

static void an_index_that_leads_out_of_the_shard_is_built_again(void **state)
{
    (void)state;
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
    assert_opens(&right, path, true, true);
    assert_int_equal(right.record_count, 2);
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
        assert_opens(&index, path, true, true);
        assert_same_records(&right, &index);
        shard_index_release(&index);
    }
    shard_index_release(&right);
}

static void a_large_file_in_place_of_an_index_is_not_read(void **state)
{
    (void)state;
    const off_t large = (off_t)256 << 20;
    const char *path = fixture_path(folder, "sparse");
    struct shard_index index;
    struct rusage before, after;
    fixture_write_shard(path, 0, 7);
    fixture_write(index_beside("sparse"), "", 0);
    assert_int_equal(truncate(index_beside("sparse"), large), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_opens(&index, path, false, true);
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

/* A directory where the index should go stands for a place that cannot be written: it
 * stops root too. */
static void the_cache_directory_takes_what_cannot_lie_beside(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "elsewhere");
    struct shard_index first, second;
    fixture_write_shard(path, 0, 7);
    assert_int_equal(mkdir(index_beside("elsewhere"), 0700), 0);
    const uint32_t before = count_files(fixture_path(folder, "cache/pipetrain"));
    assert_opens(&first, path, false, true);
    assert_int_equal(count_files(fixture_path(folder, "cache/pipetrain")), before + 1);
    assert_opens(&second, path, false, true);
    assert_same_records(&first, &second);
    shard_index_release(&first);
    shard_index_release(&second);
}

static void no_place_for_an_index_is_no_error(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "nowhere");
    struct shard_index index;
    fixture_write_shard(path, 0, 7);
    assert_int_equal(mkdir(index_beside("nowhere"), 0700), 0);
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    assert_opens(&index, path, false, true);
    assert_int_equal(index.record_count, 7);
    shard_index_release(&index);
    setenv("XDG_CACHE_HOME", fixture_path(folder, "cache"), 1);
}

static void nothing_but_the_index_is_left_behind(void **state)
{
    (void)state;
    const char *path = fixture_path(folder, "tidy/shard");
    struct shard_index index;
    assert_int_equal(mkdir(fixture_path(folder, "tidy"), 0700), 0);
    fixture_write_shard(path, 0, 7);
    assert_opens(&index, path, false, true);
    shard_index_release(&index);
    assert_int_equal(count_files(fixture_path(folder, "tidy")), 2);
}

/* As a process leaves it that is killed when it has written the index and not yet named it. */
static void what_a_process_that_died_left_of_an_index_is_taken_over(void **state)
{
    (void)state;
    struct shard_index index, kept;
    char left[512], path[512];
    assert_int_equal(mkdir(fixture_path(folder, "died"), 0700), 0);
    snprintf(left, sizeof(left), "%s", fixture_path(folder, "died/.shard" INDEX_FILE_SUFFIX ".tmp"));
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "died/shard"));
    fixture_write_shard(path, 0, 7);
    fixture_write(left, "more than the index will be, or half of it", 42);
    const int fd = open(left, O_RDONLY);
    assert_int_equal(flock(fd, LOCK_EX), 0);        /* it is alive and writes */
    assert_opens(&index, path, false, true);
    shard_index_release(&index);
    assert_int_equal(access(fixture_path(folder, "died/.shard" INDEX_FILE_SUFFIX), F_OK), -1);
    assert_int_equal(count_files(fixture_path(folder, "died")), 2);
    close(fd);                                      /* it died */
    assert_opens(&index, path, false, true);
    assert_int_equal(count_files(fixture_path(folder, "died")), 2);
    assert_int_equal(access(fixture_path(folder, "died/.shard" INDEX_FILE_SUFFIX), F_OK), 0);
    assert_opens(&kept, path, false, true);
    assert_same_records(&index, &kept);
    shard_index_release(&index);
    shard_index_release(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_records_of_any_length),
        cmocka_unit_test(an_empty_file_has_no_records),
        cmocka_unit_test(names_a_cut_at_any_byte),
        cmocka_unit_test(a_cut_costs_only_the_last_record_when_skipping),
        cmocka_unit_test(resynchronizes_after_any_flipped_header_bit),
        cmocka_unit_test(what_looks_like_headers_is_read_in_proportion_to_its_length),
        cmocka_unit_test(a_search_for_records_ends_once_it_is_unwanted),
        cmocka_unit_test(a_long_search_for_records_is_told_once),
        cmocka_unit_test(a_long_sum_ends_once_it_is_unwanted),
        cmocka_unit_test(sums_of_stretches_are_those_of_their_bytes),
        cmocka_unit_test(refuses_absurd_lengths_without_allocating),
        cmocka_unit_test(names_what_a_foreign_file_is),
        cmocka_unit_test(a_file_without_any_record_is_refused_when_skipping_too),
        cmocka_unit_test(control_characters_in_names_are_escaped),
        cmocka_unit_test(a_kept_index_equals_a_walked_one),
        cmocka_unit_test(a_kept_index_holds_damages_but_never_hides_them),
        cmocka_unit_test(a_stale_index_is_built_again),
        cmocka_unit_test(a_damaged_index_is_built_again),
        cmocka_unit_test(an_index_with_swapped_lengths_is_built_again),
        cmocka_unit_test(an_index_that_leads_out_of_the_shard_is_built_again),
        cmocka_unit_test(a_large_file_in_place_of_an_index_is_not_read),
        cmocka_unit_test(the_cache_directory_takes_what_cannot_lie_beside),
        cmocka_unit_test(no_place_for_an_index_is_no_error),
        cmocka_unit_test(nothing_but_the_index_is_left_behind),
        cmocka_unit_test(what_a_process_that_died_left_of_an_index_is_taken_over),
    };
    return cmocka_run_group_tests(tests, fixture_folder_make, fixture_folder_remove);
}
