/* Tests of shards read by several threads: all records, all damage, the same for any number of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/packed_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tools/shards/scan.h"

/* By which a compressed file is known. */
#define MAGIC_BYTES 4u

static const atomic_bool nobody_asked;

/* What a scan found, added up. */
struct result {
    uint64_t shards, records, damages, unopened;
    uint64_t order;             /* of shards and damages, and where these are */
    char text[512];             /* of the last damage */
};

static void add_up(void *arg, struct scan *scan, const struct scan_shard *shard)
{
    struct result *const result = arg;
    (void)scan;
    result->shards++;
    result->records += shard->records;
    result->damages += shard->damage_count;
    result->unopened += shard->error < 0;
    result->order = 31 * result->order + shard->records;
    for (size_t i = 0; i < shard->damage_count; i++) {
        result->order = 31 * result->order + shard->damages[i].offset;
        strcpy(result->text, shard->damages[i].problem.text);
    }
}

static struct result scan_paths(char *const *paths, uint32_t count, uint32_t threads, scan_visit visit, void *arg)
{
    struct result result = { 0 };
    const struct scan_options options = { .paths = paths, .count = count, .threads = threads,
                                         .is_unwanted = &nobody_asked, .visit = visit, .arg = arg };
    assert_int_equal(scan_shards(&options, add_up, &result), 0);
    return result;
}

static struct result scan_bytes(const uint8_t *bytes, size_t count, uint32_t threads)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/shard", folder);
    fixture_write(path, bytes, count);
    return scan_paths((char *const[]){ path }, 1, threads, NULL, NULL);
}

TEST(every_flipped_bit_is_found_and_costs_one_record_at_most)
{
    uint8_t shard[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = fixture_three(shard, ends);
    for (size_t bit = 0; bit < 8 * bytes; bit += 3) {
        shard[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const struct result result = scan_bytes(shard, bytes, 2);
        assert_int_equal(result.damages, 1);
        assert_true(result.records == 2 || (result.records == 3 && strstr(result.text, "payload checksum") != NULL));
        shard[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(scan_bytes(shard, bytes, 2).damages, 0);
}

/* Where members and frames hold a record each, damage behind the bytes that tell what the file is costs that one at
 * most, and no record is lost without damage being told. */
TEST(damage_of_compressed_shards_costs_a_unit_at_most)
{
    static const enum packed_way ways[] = { PACKED_GZIP, PACKED_LZ4 };
    uint8_t shard[3 * FIXTURE_FRAME_MAX], packed[16384];
    size_t ends[3];
    const size_t bytes = fixture_three(shard, ends);
    for (size_t way = 0; way < 2; way++) {
        assert_true(packed_fixture_room(bytes, 3) <= sizeof(packed));
        const size_t length = packed_fixture(ways[way], shard, ends, 3, packed);
        const struct result whole = scan_bytes(packed, length, 2);
        assert_true(whole.records == 3 && whole.damages == 0);
        for (size_t i = MAGIC_BYTES; i < length; i += 7) {
            packed[i] ^= 0x5a;
            const struct result result = scan_bytes(packed, length, 2);
            packed[i] ^= 0x5a;
            if (result.records < 2 || (result.damages == 0 && result.records < 3))
                fail_msg("way %zu, byte %zu of %zu: %d records, %d damages", way, i, length, (int)result.records,
                         (int)result.damages);
        }
        for (size_t cut = 1; cut < length; cut += 5) {
            const struct result result = scan_bytes(packed, cut, 1);
            assert_true(result.damages > 0 || result.records < 3);
        }
    }
}

TEST(every_cut_but_between_records_is_found)
{
    uint8_t shard[3 * FIXTURE_FRAME_MAX];
    size_t ends[3];
    const size_t bytes = fixture_three(shard, ends);
    for (size_t cut = 0; cut <= bytes; cut++) {
        const struct result result = scan_bytes(shard, cut, 1);
        uint64_t whole = 0;
        while (whole < 3 && ends[whole] <= cut)
            whole++;
        assert_int_equal(result.records, whole);
        assert_int_equal(result.damages, cut != (whole > 0 ? ends[whole - 1] : 0));
    }
}

/* As many shards as fit in several ranges, some damaged. */
static void write_large(char paths[5][512])
{
    uint8_t frame[FIXTURE_FRAME_MAX];
    for (uint64_t shard = 0; shard < 5; shard++) {
        snprintf(paths[shard], 512, "%s/large-%u", folder, (unsigned)shard);
        FILE *const out = fopen(paths[shard], "wb");
        assert_non_null(out);
        for (uint64_t i = 0; i < 4000 * (shard + 1); i++) {
            const size_t bytes = fixture_record(i, frame);
            frame[bytes / 2] ^= i % 1000 == 7 * shard;
            frame[3] ^= i % 5000 == 4999;
            assert_int_equal(fwrite(frame, 1, bytes, out), bytes);
        }
        assert_int_equal(fclose(out), 0);
    }
}

static bool count_visit(void *arg, uint32_t thread, uint32_t shard, const struct chunk_record *record,
                        struct record_problem *problem_out)
{
    uint64_t *const counts = arg;
    (void)shard;
    (void)problem_out;
    counts[thread] += record->payload_bytes > 0;
    return true;
}

TEST(any_number_of_threads_finds_the_same)
{
    char names[5][512];
    write_large(names);
    char *const paths[5] = { names[0], names[1], names[2], names[3], names[4] };
    uint64_t alone[1] = { 0 };
    const struct result one = scan_paths(paths, 5, 1, count_visit, alone);
    assert_int_equal(one.shards, 5);
    assert_int_equal(one.damages, 4 + 8 + 12 + 16 + 20 + 0 + 1 + 2 + 3 + 4);
    assert_int_equal(one.records, 4000 * 15 - 10);
    assert_int_equal(alone[0], one.records - 60);
    for (uint32_t threads = 2; threads < 9; threads += 3) {
        uint64_t counts[8] = { 0 }, visited = 0;
        const struct result many = scan_paths(paths, 5, threads, count_visit, counts);
        for (uint32_t i = 0; i < threads; i++)
            visited += counts[i];
        assert_int_equal(visited, alone[0]);
        assert_int_equal(many.records, one.records);
        assert_int_equal(many.order, one.order);
    }
}

static bool refuse_visit(void *arg, uint32_t thread, uint32_t shard, const struct chunk_record *record,
                         struct record_problem *problem_out)
{
    (void)arg;
    (void)thread;
    (void)shard;
    strcpy(problem_out->text, "not liked");
    return record->record != 1;
}

TEST(what_a_visitor_refuses_is_damage)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/shard", folder);
    fixture_write_shard(path, 0, 3);
    const struct result result = scan_paths((char *const[]){ path }, 1, 2, refuse_visit, NULL);
    assert_int_equal(result.damages, 1);
    assert_string_equal(result.text, "not liked");
}

TEST(records_longer_than_a_range_are_read)
{
    const size_t bytes = 3u << 20;
    uint8_t *const payload = calloc(bytes, 1), *const shard = malloc(2 * bytes + 64);
    assert_true(payload != NULL && shard != NULL);
    size_t length = fixture_frame(payload, bytes, shard);
    length += fixture_frame(payload, bytes, shard + length);
    assert_int_equal(scan_bytes(shard, length, 2).records, 2);
    shard[length - 5] ^= 1;
    const struct result result = scan_bytes(shard, length, 2);
    assert_int_equal(result.damages, 1);
    assert_non_null(strstr(result.text, "a second read agrees"));
    free(payload);
    free(shard);
}

TEST(a_file_that_is_no_shard_is_reported_with_its_kind)
{
    static const char text[] = "this is a text and no shard at all\n";
    const struct result result = scan_bytes((const uint8_t *)text, sizeof(text) - 1, 1);
    assert_int_equal(result.records, 0);
    assert_int_equal(result.damages, 1);
    assert_non_null(strstr(result.text, "not a TFRecord shard"));
}

TEST(a_shard_that_is_not_there_ends_nothing)
{
    char path[512], absent[512];
    snprintf(path, sizeof(path), "%s/shard", folder);
    snprintf(absent, sizeof(absent), "%s/absent", folder);
    fixture_write_shard(path, 0, 3);
    const struct result result = scan_paths((char *const[]){ absent, path }, 2, 1, NULL, NULL);
    assert_int_equal(result.unopened, 1);
    assert_int_equal(result.records, 3);
}

TEST(a_scan_ends_when_it_is_unwanted)
{
    static const atomic_bool asked = true;
    char path[512];
    struct result result = { 0 };
    snprintf(path, sizeof(path), "%s/shard", folder);
    fixture_write_shard(path, 0, 3);
    const struct scan_options options = { .paths = (char *const[]){ path }, .count = 1, .threads = 3,
                                         .is_unwanted = &asked };
    assert_int_equal(scan_shards(&options, add_up, &result), -ECANCELED);
    assert_int_equal(result.shards, 0);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
