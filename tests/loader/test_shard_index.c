/* The index of a shard: what it finds and what it refuses. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "formats/crc32c.h"
#include "formats/tfrecord.h"
#include "loader/shards/range_crc.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/memory_source.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

/* Opening `data` as a shard fails with a message that contains `part`. */
static void assert_refuses(const void *data, size_t bytes, const char *part)
{
    const char *path = fixture_path(folder, "bad");
    struct shard_index index;
    char problem[1024];
    fixture_write(path, data, bytes);
    assert_true(fixture_open_index(&index, path, false, false, problem, sizeof(problem)) < 0);
    if (strstr(problem, part) == NULL || strstr(problem, path) == NULL)
        fail_msg("'%s' does not hold '%s'", problem, part);
}

/* Records of many lengths around the sizes of the walk's windows. */
TEST(finds_records_of_any_length)
{
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
    fixture_assert_index_opens(&index, path, false, false);
    assert_int_equal(index.record_count, count);
    assert_int_equal(index.bytes, bytes);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(shard_index_find(&index, i).offset, offsets[i]);
        assert_int_equal(shard_index_find(&index, i).payload_bytes, lengths[i]);
    }
    shard_index_release(&index);
    free(payload);
    free(data);
}

/* Lengths of records that differ, and are 0 now and then. */
static uint32_t length_of(uint64_t number)
{
    return (uint32_t)(number * 2654435761u >> 7) % 1000 * (number % 5 > 0);
}

/* An index of records with damage before every `damage_every`-th of them, if that is not 0. */
static struct shard_index make_index(uint64_t records, uint64_t damage_every)
{
    struct shard_index index = { 0 };
    for (uint64_t i = 0; i < records; i++) {
        if (damage_every > 0 && i % damage_every == 0)
            assert_int_equal(shard_index_add_damage(&index, 1 + i % 7), 0);
        assert_int_equal(shard_index_add_record(&index, length_of(i)), 0);
    }
    shard_index_trim(&index);
    return index;
}

static bool is_number_kept(void *arg, uint64_t number)
{
    const uint64_t every = *(const uint64_t *)arg;
    return every > 0 && (number * 2654435761u >> 5) % every == 0;
}

/* Compares an index with a sum over all records, found one by one and in order. */
static void assert_records_are_found(const struct shard_index *index, uint64_t damage_every, uint64_t keep_every)
{
    struct shard_record next = { 0 };
    uint64_t offset = 0, record = 0;
    uint32_t longest = 0;
    for (uint64_t number = 0; number < index->record_count + index->left_out; number++) {
        offset += damage_every > 0 && number % damage_every == 0 ? 1 + number % 7 : 0;
        if (is_number_kept(&keep_every, number)) {
            const struct shard_record found = shard_index_find(index, record);
            if (record == 0)
                next = found;
            else
                shard_index_advance(index, &next);
            assert_int_equal(found.number, number);
            assert_int_equal(found.offset, offset);
            assert_int_equal(found.payload_bytes, length_of(number));
            assert_memory_equal(&next, &found, sizeof(found));
            assert_int_equal(shard_index_number(index, record), number);
            longest = found.payload_bytes > longest ? found.payload_bytes : longest;
            record++;
        }
        offset += length_of(number) + TFRECORD_FRAME_BYTES;
    }
    assert_int_equal(record, index->record_count);
    assert_int_equal(offset, index->end);
    assert_int_equal(shard_index_longest(index), longest);
}

/* Through every size at which its memory grows, or is had in another way. */
TEST(an_index_of_many_records_keeps_all)
{
    static const struct { uint64_t records, damage_every, keep_every; } rows[] = {
        { 1, 0, 1 },   { 63, 0, 1 },  { 64, 0, 1 },      { 65, 0, 1 },    { 1024, 0, 1 },     { 1025, 0, 3 },
        { 777, 1, 1 }, { 777, 5, 1 }, { 5000, 700, 10 }, { 5000, 64, 2 }, { 40000, 0, 1000 }, { 500, 0, 0 },
        { 600000, 0, 1 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t keep_every = rows[i].keep_every;
        struct shard_index index = make_index(rows[i].records, rows[i].damage_every);
        assert_int_equal(index.record_count, rows[i].records);
        if (keep_every != 1)
            assert_int_equal(shard_index_keep(&index, is_number_kept, &keep_every), 0);
        assert_int_equal(index.record_count + index.left_out, rows[i].records);
        assert_records_are_found(&index, rows[i].damage_every, keep_every);
        shard_index_release(&index);
    }
}

TEST(offsets_of_the_longest_records_are_right)
{
    const uint64_t bytes = (uint64_t)TFRECORD_PAYLOAD_MAX + TFRECORD_FRAME_BYTES;
    struct shard_index index = { 0 };
    for (int i = 0; i < 200; i++)
        assert_int_equal(shard_index_add_record(&index, TFRECORD_PAYLOAD_MAX), 0);
    for (uint64_t i = 0; i < 200; i++)
        assert_int_equal(shard_index_find(&index, i).offset, i * bytes);
    shard_index_release(&index);
}

static bool is_every_second(void *arg, uint64_t number)
{
    (void)number;
    uint64_t *const count = arg;
    return (*count)++ % 2 == 0;
}

/* First one part of the records, then some of these, as with data.validation_split and data.limit. */
TEST(records_are_left_out_twice)
{
    uint64_t every = 3, count = 0, record = 0;
    struct shard_index index = make_index(3000, 0);
    assert_int_equal(shard_index_keep(&index, is_number_kept, &every), 0);
    assert_int_equal(shard_index_keep(&index, is_every_second, &count), 0);
    count = 0;
    for (uint64_t number = 0; number < 3000; number++)
        if (is_number_kept(&every, number) && is_every_second(&count, number))
            assert_int_equal(shard_index_number(&index, record++), number);
    assert_int_equal(record, index.record_count);
    shard_index_release(&index);
}

/* Of a shard of 300,000 records, opened as a data set opens it, with what the allocator rounds up. */
TEST(an_index_takes_at_most_5_bytes_a_record)
{
    enum { RECORDS = 300000, FRAME_BYTES = TFRECORD_FRAME_BYTES + 1 };
    uint8_t *const data = malloc((size_t)RECORDS * FRAME_BYTES);
    const char *const path = fixture_path(folder, "many");
    uint64_t every = 10;
    for (size_t i = 0; i < RECORDS; i++)
        fixture_frame((const uint8_t *)"x", 1, data + i * FRAME_BYTES);
    fixture_write(path, data, (size_t)RECORDS * FRAME_BYTES);
    free(data);
    for (int way = 0; way < 3; way++) {     /* walked, from its index file, and with records left out */
        struct shard_index index;
        fixture_assert_index_opens(&index, path, false, true);
        if (way == 2)
            assert_int_equal(shard_index_keep(&index, is_number_kept, &every), 0);
        const size_t bytes = malloc_usable_size(index.lengths) + malloc_usable_size(index.offsets) +
                             malloc_usable_size(index.kept) + malloc_usable_size(index.firsts);
        assert_in_range(bytes, 4 * RECORDS, 5 * RECORDS);
        shard_index_release(&index);
    }
}

TEST(an_empty_file_has_no_records)
{
    const char *path = fixture_path(folder, "empty");
    struct shard_index index;
    fixture_write(path, "", 0);
    fixture_assert_index_opens(&index, path, false, false);
    assert_int_equal(index.record_count, 0);
    assert_int_equal(index.damage_count, 0);
    shard_index_release(&index);
}

/* A cut between records leaves a valid, shorter shard. */
TEST(names_a_cut_at_any_byte)
{
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = fixture_three(data, ends);
    for (size_t cut = 0; cut < bytes; cut++) {
        const uint64_t whole = cut >= ends[1] ? 2 : cut >= ends[0];
        const size_t begins = whole ? ends[whole - 1] : 0;
        const char *path = fixture_path(folder, "cut");
        char problem[1024], wanted[64];
        struct shard_index index;
        fixture_write(path, data, cut);
        const int rc = fixture_open_index(&index, path, false, false, problem, sizeof(problem));
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

TEST(a_cut_costs_only_the_last_record_when_skipping)
{
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = fixture_three(data, ends);
    for (size_t cut = ends[0]; cut < bytes; cut++) {
        const uint64_t whole = cut >= ends[1] ? 2 : 1;
        const char *path = fixture_path(folder, "cut");
        struct shard_index index;
        fixture_write(path, data, cut);
        fixture_assert_index_opens(&index, path, true, false);
        assert_int_equal(index.record_count, whole);
        assert_int_equal(index.damage_count, cut != ends[whole - 1]);
        shard_index_release(&index);
    }
}

/* Every bit of every header: found without skipping, and with it only that record is lost. */
TEST(resynchronizes_after_any_flipped_header_bit)
{
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = fixture_three(data, ends);
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
            assert_int_equal(fixture_open_index(&index, path, false, false, problem, sizeof(problem)), -EBADMSG);
            snprintf(wanted, sizeof(wanted), "record %d at byte %zu", record, begins);
            assert_non_null(strstr(problem, wanted));
            fixture_assert_index_opens(&index, path, true, false);
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

TEST(what_looks_like_headers_is_read_in_proportion_to_its_length)
{
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
    assert_int_equal(shard_index_find(&index, 0).offset, good);
    assert_int_equal(index.damage_count, 1);
    assert_true(shard.given < 200 * bytes);
    shard_index_release(&index);
    shard_source_close(source);
    free(data);
}

/* Three records followed by zeros. */
static uint8_t *make_zero_tail(struct memory_shard *shard, size_t bytes)
{
    uint8_t *const data = calloc(1, bytes);
    size_t ends[3];
    assert_non_null(data);
    fixture_three(data, ends);
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

static double cpu_seconds(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
}

/* A hole in a file, as a crash leaves one: any number of zeros between two records, and half a gigabyte. */
TEST(zeros_are_skipped)
{
    enum { LONG = 512 << 20 };
    uint8_t record[FIXTURE_FRAME_MAX];
    const size_t bytes = fixture_record(3, record);
    char path[512];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "zeros"));
    const double begun = cpu_seconds();
    for (off_t zeros = 1; zeros <= LONG; zeros = zeros == 64 ? LONG : zeros + 1) {
        struct shard_index index;
        fixture_write(path, record, bytes);
        assert_int_equal(truncate(path, (off_t)bytes + zeros), 0);
        FILE *const file = fopen(path, "a");
        assert_non_null(file);
        assert_int_equal(fwrite(record, 1, bytes, file), bytes);
        assert_int_equal(fclose(file), 0);
        fixture_assert_index_opens(&index, path, true, false);
        assert_int_equal(index.record_count, 2);
        assert_int_equal(shard_index_find(&index, 1).offset, (off_t)bytes + zeros);
        assert_int_equal(index.damage_count, 1);
        assert_int_equal(index.damages[0].bytes, zeros);
        shard_index_release(&index);
    }
    assert_true(cpu_seconds() - begun < 6);     /* a checksum for each of them takes longer */
}

TEST(a_search_for_records_ends_once_it_is_unwanted)
{
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

TEST(a_long_search_for_records_is_reported_once)
{
    struct memory_shard shard;
    uint8_t *const data = make_zero_tail(&shard, (size_t)66 << 20);
    const struct shard_index_options options = { .skip_damage = true, .what = "train" };
    char problem[256], told[512], line[128];
    size_t ends[3];
    snprintf(line, sizeof(line), "train: tail: searching for the next record after byte %zu\n",
             fixture_three(data, ends));
    assert_int_equal(index_tail(&options, problem, sizeof(problem), told, sizeof(told)), 0);
    assert_string_equal(told, line);
    free(data);
}

TEST(a_long_sum_ends_once_it_is_unwanted)
{
    atomic_bool is_unwanted = false;
    struct memory_shard shard;
    uint8_t *const data = make_zero_tail(&shard, (size_t)4 << 20);
    struct shard_source *source;
    uint32_t crc;
    assert_int_equal(shard_source_open(&source, &memory_source_ops, "tail"), 0);
    struct range_crc sums = { .source = source, .is_unwanted = &is_unwanted };
    shard.raised = &is_unwanted;
    shard.raised_at = 3;
    assert_int_equal(range_crc_find(&sums, 0, (size_t)4 << 20, &crc), -ECANCELED);
    assert_int_equal(shard.read, 3);
    range_crc_release(&sums);
    shard_source_close(source);
    free(data);
}

TEST(sums_of_stretches_are_those_of_their_bytes)
{
    static uint8_t data[40000];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * i >> 5);
    struct memory_shard shard = { .name = "sums", .data = data, .bytes = sizeof(data), .piece = 3000 };
    struct shard_source *source;
    memory_source_set(&shard, 1);
    assert_int_equal(shard_source_open(&source, &memory_source_ops, "sums"), 0);
    struct range_crc sums = { .source = source };
    uint32_t crc;
    for (size_t offset = 5; offset < sizeof(data); offset += 1 + offset / 7) {
        for (size_t bytes = 0; bytes <= sizeof(data) - offset; bytes = bytes * 3 / 2 + 1) {
            assert_int_equal(range_crc_find(&sums, offset, bytes, &crc), 0);
            assert_int_equal(crc, crc32c(data + offset, bytes));
        }
    }
    assert_int_equal(range_crc_find(&sums, 100, sizeof(data), &crc), -ESTALE);
    assert_int_equal(range_crc_find(&sums, 100, 3, &crc), 0);
    assert_int_equal(crc, crc32c(data + 100, 3));
    range_crc_release(&sums);
    shard_source_close(source);
}

TEST(refuses_absurd_lengths_without_allocating)
{
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

TEST(names_what_a_foreign_file_is)
{
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
    assert_refuses("PAR1\025\4\025\0\025\0\025\0\025\0", 14, "Parquet file");
    assert_refuses("ARROW1\0\0\xff\xff\xff\xff\0\0", 14, "Arrow file");
    assert_refuses("\2\0\2\0\0\0\x80\0\x10\0\0\0\0\0", 14, "FFCV file");
    assert_refuses("PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0", 14, "zip archive");
    assert_refuses("\0\0\x08\x03\0\0\xea\x60\0\0\0\x1c\0\0\0\x1c", 16, "IDX");
    assert_refuses(zeros, sizeof(zeros), "zeros");
    assert_refuses("\x01\x02\x03", 3, "record 0 at byte 0: record is cut short (needs 12 bytes, 3 are left)");
}

TEST(a_file_without_any_record_is_refused_when_skipping_too)
{
    const char *path = fixture_path(folder, "foreign");
    char problem[1024];
    struct shard_index index;
    fixture_write(path, "<html>no such page, and no record either</html>", 47);
    assert_int_equal(fixture_open_index(&index, path, true, false, problem, sizeof(problem)), -ENOTSUP);
    assert_non_null(strstr(problem, "HTML"));
}

TEST(control_characters_in_names_are_escaped)
{
    const char *path = fixture_path(folder, "a\x1b[31m\nname");
    char problem[1024];
    struct shard_index index;
    fixture_write(path, "x", 1);
    assert_true(fixture_open_index(&index, path, false, false, problem, sizeof(problem)) < 0);
    assert_null(strpbrk(problem, "\x1b\n"));
    assert_non_null(strstr(problem, "\\x1b"));
}

/* Kept indexes. */

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
