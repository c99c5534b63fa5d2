/* Damaged records on their way through the loader: none reaches a batch, each is named,
 * and skipping one costs one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "formats/tfrecord.h"
#include "loader/damage.h"
#include "stage/batch.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { RECORDS_MAX = 64, KEEP_SIZES = 3 };

static const size_t keep_sizes[KEEP_SIZES] = { 0, LOADER_KEEP_NONE, LOADER_KEEP_ALL };

/* A shard in memory. */
static struct shard {
    uint8_t data[RECORDS_MAX * FIXTURE_FRAME_MAX];
    size_t begins[RECORDS_MAX + 1];
    uint32_t count;
} shard;

static void make_shard(uint32_t count)
{
    shard.count = count;
    for (uint32_t id = 0; id < count; id++)
        shard.begins[id + 1] = shard.begins[id] + fixture_record(id, shard.data + shard.begins[id]);
}

static void damage_payload(uint32_t record)
{
    shard.data[shard.begins[record] + TFRECORD_HEADER_BYTES + 5] ^= 0x40;
}

static const char *write_shard(const char *name)
{
    const char *path = fixture_path(folder, name);
    fixture_write(path, shard.data, shard.begins[shard.count]);
    return path;
}

static struct dataset *open_shard(const char *path, bool skip_damage)
{
    struct dataset_options options = fixture_options(path);
    options.skip_damage = skip_damage;
    return fixture_open(&options);
}

static struct harness make_harness(const struct dataset *train, const struct dataset *evaluation, bool skip)
{
    return (struct harness){
        .spec = { .datasets = { train, evaluation }, .shuffle = SHUFFLE_FULL, .seed = 3, .read_threads = 1,
                  .decode_threads = 2, .skip_corrupt = skip, .corrupt_max = RECORDS_MAX },
        .schedule = { .batch = 4, .towers = 1, .epochs = 2 },
        .depth = 2,
    };
}

/* The order a record has without damage, at each place. */
static uint64_t wanted_record(const struct harness *harness, uint64_t number, uint32_t i)
{
    const struct local_batch local = harness_span(harness, number);
    struct order order;
    const struct order_shape stored = { .shuffle = SHUFFLE_NONE, .count = harness->schedule.records[local.phase] };
    const struct order_shape shape = local.phase == PHASE_TRAIN ? loader_order(&harness->spec) : stored;
    order_init(&order, &shape, 0, harness->spec.seed, local.epoch);
    order_enter(&order, local.first_position + i);
    return order_record(&order, local.first_position + i);
}

static void assert_hole(const struct delivery *delivery, uint64_t id)
{
    const uint8_t zeros[FIXTURE_SAMPLE_BYTES] = { 0 };
    assert_int_equal(delivery->times, 1);
    assert_int_equal(delivery->id, id);
    assert_int_equal(delivery->label, BATCH_NO_LABEL);
    assert_true(delivery->pixels_hash == XXH3_64bits(zeros, sizeof(zeros)));
}

/* Every place holds what it should when the records flagged in `bad` are damaged: the
 * next good record in training, a hole in evaluation. */
static void assert_skipped(const struct harness *harness, const bool *bad)
{
    assert_string_equal(harness->message, "");
    for (uint64_t number = 0; number < harness->batch_count; number++) {
        const struct local_batch local = harness_span(harness, number);
        for (uint32_t i = 0; i < local.count; i++) {
            const struct delivery *delivery = &harness->deliveries[number * harness->schedule.batch + i];
            uint64_t id = wanted_record(harness, number, i);
            if (local.phase == PHASE_EVALUATE && bad[id]) {
                assert_hole(delivery, id);
                continue;
            }
            while (bad[id])
                id = (id + 1) % harness->schedule.records[local.phase];
            assert_int_equal(delivery->id, id);
            harness_assert_delivered(delivery, id);
        }
    }
}

static uint32_t record_at(size_t offset)
{
    uint32_t record = 0;
    while (shard.begins[record + 1] <= offset)
        record++;
    return record;
}

static void assert_fails_naming(uint32_t record, const char *path)
{
    const struct dataset_options options = fixture_options(path);
    struct dataset *dataset = NULL;
    char problem[4096], wanted[128];
    snprintf(wanted, sizeof(wanted), "flipped: record %u at byte %zu: ", record, shard.begins[record]);
    if (dataset_open(&dataset, &options, problem, sizeof(problem)) == 0) {
        struct harness harness = make_harness(dataset, NULL, false);
        harness_run(&harness);
        assert_int_equal(harness.code, EXIT_CODE_DATA);
        snprintf(problem, sizeof(problem), "%s", harness.message);
        harness_release(&harness);
    }
    assert_true(record == 0 || strstr(problem, "data.on_corrupt = skip") != NULL);
    dataset_close(dataset);
    /* A first header that is wrong may look like another kind of file. */
    if (strstr(problem, wanted) == NULL && (record > 0 || strstr(problem, "record 0 at byte 0") == NULL))
        fail_msg("'%s' does not hold '%s'", problem, wanted);
    assert_non_null(strstr(problem, "checksum differs (stored "));
}

/* A record whose header is damaged is missing from the index: the others move up. */
static void assert_others_whole(const char *path, uint32_t lost)
{
    struct dataset *dataset = open_shard(path, true);
    assert_int_equal(dataset->record_count, shard.count - 1);
    struct harness harness = make_harness(dataset, NULL, true);
    harness_run(&harness);
    assert_string_equal(harness.message, "");
    for (uint64_t i = 0; i < 2 * dataset->record_count; i++) {
        const struct delivery *delivery = &harness.deliveries[i / 2 * 4 + i % 2];
        harness_assert_delivered(delivery, delivery->id + (delivery->id >= lost));
    }
    assert_int_equal(harness.counts.corrupt_records, 1);
    harness_release(&harness);
    dataset_close(dataset);
}

static void assert_replaced(const char *path, uint32_t damaged)
{
    struct dataset *dataset = open_shard(path, true);
    struct harness harness = make_harness(dataset, dataset, true);
    bool bad[3] = { false };
    bad[damaged] = true;
    harness_run(&harness);
    assert_skipped(&harness, bad);
    assert_int_equal(harness.counts.corrupt_records, 2);    /* once in each pass */
    harness_release(&harness);
    dataset_close(dataset);
}

/* Flips one bit of each payload byte; long tests flip all eight. */
static bool is_flipped(size_t bit, uint32_t record)
{
    const bool is_header = bit / 8 < shard.begins[record] + TFRECORD_HEADER_BYTES;
    return is_header || test_is_long() || bit / 8 % 8 == bit % 8;
}

TEST(any_flipped_bit_is_found_and_costs_one_record)
{
    make_shard(3);
    for (size_t bit = 0; bit < 8 * shard.begins[3]; bit++) {
        const uint32_t record = record_at(bit / 8);
        if (!is_flipped(bit, record))
            continue;
        shard.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)unlink(fixture_path(folder, "flipped"));  /* overwriting waits for the disk */
        const char *path = write_shard("flipped");
        shard.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_fails_naming(record, path);
        if (bit / 8 < shard.begins[record] + TFRECORD_HEADER_BYTES)
            assert_others_whole(path, record);
        else
            assert_replaced(path, record);
    }
}

/* Which records are damaged, as bits: every pattern of six, the last ones included. */
TEST(chains_of_damage_end_at_the_next_good_record)
{
    for (uint32_t pattern = 1; pattern < 63; pattern++) {
        bool bad[6];
        make_shard(6);
        for (uint32_t i = 0; i < 6; i++) {
            bad[i] = pattern >> i & 1;
            if (bad[i])
                damage_payload(i);
        }
        struct dataset *dataset = open_shard(write_shard("chain"), true);
        struct harness harness = make_harness(dataset, NULL, true);
        harness_run(&harness);
        assert_skipped(&harness, bad);
        assert_int_equal(harness.counts.corrupt_records, __builtin_popcount(pattern));
        assert_int_equal(harness.damage_count, __builtin_popcount(pattern));
        harness_release(&harness);
        dataset_close(dataset);
    }
}

TEST(replacements_do_not_depend_on_threads_or_sources)
{
    bool bad[40] = { false };
    make_shard(40);
    for (uint32_t i = 0; i < 40; i += i % 3 ? 1 : 5) {
        bad[i] = true;
        damage_payload(i);
    }
    struct dataset *dataset = open_shard(write_shard("threads"), true);
    for (uint32_t i = 0; i < 4 * 3 * 3 * 3; i++) {
        struct harness harness = make_harness(dataset, dataset, true);
        harness.schedule.epochs = 3;
        harness.schedule.batch = 16;
        harness.schedule.towers = 1 + i % 3;
        harness.spec.read_threads = 1 + i / 3 % 3;
        harness.spec.decode_threads = 1 + i / 9 % 3;
        harness.spec.keep_bytes = keep_sizes[i / 27 % KEEP_SIZES];
        if (i / 27 == KEEP_SIZES) {
            harness.spec.shuffle = SHUFFLE_BLOCK;
            harness.spec.keep_bytes = LOADER_KEEP_NONE;
            harness.spec.block_bytes = 500;
            harness.spec.window_bytes = 1500;
        }
        harness_run(&harness);
        assert_skipped(&harness, bad);
        harness_release(&harness);
    }
    dataset_close(dataset);
}

TEST(too_much_damage_ends_the_run)
{
    make_shard(20);
    for (uint32_t i = 0; i < 5; i++)
        damage_payload(3 * i + 1);
    struct dataset *dataset = open_shard(write_shard("limit"), true);
    for (uint64_t limit = 0; limit <= 6; limit++) {
        struct harness harness = make_harness(dataset, NULL, true);
        harness.spec.corrupt_max = limit;
        harness_run(&harness);
        if (limit >= 5) {
            assert_string_equal(harness.message, "");
            assert_int_equal(harness.counts.corrupt_records, 5);
        } else {
            char wanted[64];
            snprintf(wanted, sizeof(wanted), "more than %u of 20 records are damaged, ", (unsigned)limit);
            assert_int_equal(harness.code, EXIT_CODE_DATA);
            assert_non_null(strstr(harness.message, wanted));
            assert_non_null(strstr(harness.message, "limit: record "));
        }
        harness_release(&harness);
    }
    dataset_close(dataset);
}

/* The sums a text names are those of the list. */
static void assert_listed(const struct damaged_record *listed, const char *name, uint64_t record, uint64_t offset,
                          const char *problem)
{
    char sums[64];
    const char *const slash = strrchr(listed->path, '/');
    assert_string_equal(slash + 1, name);
    assert_int_equal(listed->record, record);
    assert_int_equal(listed->offset, offset);
    assert_ptr_equal(strstr(listed->problem.text, problem), listed->problem.text);
    snprintf(sums, sizeof(sums), "(stored %08x, computed %08x)", listed->problem.stored_crc,
             listed->problem.computed_crc);
    assert_int_equal(listed->problem.has_crcs, strstr(listed->problem.text, sums) != NULL);
}

TEST(damage_found_while_indexing_counts_too)
{
    make_shard(20);
    shard.data[shard.begins[4] + 2] ^= 4;
    shard.data[shard.begins[9] + 9] ^= 4;
    damage_payload(15);
    struct dataset *dataset = open_shard(write_shard("lost"), true);
    assert_int_equal(dataset->record_count, 18);
    assert_int_equal(dataset->lost_records, 2);
    struct harness harness = make_harness(dataset, NULL, true);
    harness_run(&harness);
    assert_int_equal(harness.counts.corrupt_records, 3);
    assert_int_equal(harness.damage_count, 3);
    assert_listed(&harness.damages[0], "lost", 4, shard.begins[4], "length checksum differs (stored ");
    assert_listed(&harness.damages[1], "lost", 8, shard.begins[9], "length checksum differs (stored ");
    assert_listed(&harness.damages[2], "lost", 13, shard.begins[15], "payload checksum differs (stored ");
    harness_release(&harness);
    harness = make_harness(dataset, NULL, true);
    harness.spec.corrupt_max = 1;
    harness_run(&harness);
    assert_true(harness.start_result < 0);
    assert_non_null(strstr(harness.message, "2 of 20 records are damaged, more than the 1 that data.max_corrupt"));
    harness_release(&harness);
    dataset_close(dataset);
}

/* What a sink got. */
struct quarantine { size_t count; uint64_t offsets[4 * RECORDS_MAX]; enum phase passes[4 * RECORDS_MAX]; };

static void keep_offset(void *arg, const struct damaged_record *record)
{
    struct quarantine *const quarantine = arg;
    assert_in_range(quarantine->count, 0, 4 * RECORDS_MAX - 1);
    quarantine->passes[quarantine->count] = record->phase;
    quarantine->offsets[quarantine->count++] = record->offset;
}

static size_t times_of(const struct quarantine *quarantine, enum phase phase, uint64_t offset)
{
    size_t times = 0;
    for (size_t i = 0; i < quarantine->count; i++)
        times += quarantine->passes[i] == phase && quarantine->offsets[i] == offset;
    return times;
}

TEST(every_damage_is_handed_on_once_in_many_epochs)
{
    make_shard(40);
    for (uint32_t i = 0; i < 40; i += 4)
        damage_payload(i);
    shard.data[shard.begins[21] + 3] ^= 1;
    struct dataset *dataset = open_shard(write_shard("handed_on"), true);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct quarantine quarantine = { 0 };
        struct harness harness = make_harness(dataset, dataset, true);
        harness.schedule.epochs = 4;
        harness.spec.decode_threads = harness.spec.read_threads = threads;
        harness.spec.damage_sink = (struct damage_sink){ keep_offset, &quarantine };
        harness_run(&harness);
        assert_int_equal(harness.counts.corrupt_records, 22);
        assert_int_equal(quarantine.count, 22);
        for (uint32_t i = 0; i < 40; i++)
            for (int phase = 0; phase < PHASE_COUNT; phase++)
                assert_int_equal(times_of(&quarantine, (enum phase)phase, shard.begins[i]), i % 4 == 0 || i == 21);
        harness_release(&harness);
    }
    dataset_close(dataset);
}

TEST(nothing_readable_is_an_error_not_a_loop)
{
    make_shard(9);
    const char *path = write_shard("ruined");
    struct dataset *dataset = open_shard(path, true);
    for (uint32_t i = 0; i < 9; i++)
        damage_payload(i);
    write_shard("ruined");
    struct harness harness = make_harness(dataset, NULL, true);
    harness_run(&harness);
    assert_int_equal(harness.code, EXIT_CODE_DATA);
    assert_non_null(strstr(harness.message, "train: no readable record is left, all 9 are damaged; the first: "));
    assert_non_null(strstr(harness.message, "ruined: record 0 at byte 0: payload checksum differs"));
    harness_release(&harness);
    dataset_close(dataset);
    struct dataset_options options = fixture_options(path);
    options.skip_damage = true;
    fixture_assert_refused(&options, "no readable record is left, all 9 are damaged; the first: ",
                           "ruined: record 0 at byte 0: payload checksum differs");
}

TEST(no_damage_is_reported_after_the_message_that_ends_the_run)
{
    char first[DAMAGE_TEXT_BYTES], said[4096];
    const struct record_problem problem = { .text = "is bad" };
    struct damage damage;
    struct capture capture;
    make_shard(4);
    struct dataset *dataset = open_shard(write_shard("silent"), true);
    const struct dataset *const datasets[PHASE_COUNT] = { dataset, NULL };
    assert_int_equal(damage_init(&damage, datasets, &(struct damage_sink){ NULL, NULL }), 0);
    capture_begin(&capture);
    assert_true(damage_add(&damage, PHASE_TRAIN, 2, &problem));
    damage_end(&damage, first, sizeof(first));
    assert_true(damage_add(&damage, PHASE_TRAIN, 1, &problem));
    capture_end(&capture, said, sizeof(said));
    assert_non_null(strstr(said, "silent: record 2 at byte "));
    assert_null(strstr(said, "record 1 "));
    assert_non_null(strstr(first, "silent: record 2 at byte "));
    assert_int_equal(damage_count(&damage), 2);
    damage_release(&damage);
    dataset_close(dataset);
}

TEST(ten_damaged_records_are_reported_and_that_there_are_more)
{
    const struct record_problem problem = { .text = "is bad" };
    make_shard(20);
    struct dataset *dataset = open_shard(write_shard("many"), true);
    const struct dataset *const datasets[PHASE_COUNT] = { dataset, NULL };
    for (uint64_t count = 9; count <= 13; count++) {
        struct damage damage;
        struct capture capture;
        char said[8192];
        uint64_t lines = 0;
        assert_int_equal(damage_init(&damage, datasets, &(struct damage_sink){ NULL, NULL }), 0);
        capture_begin(&capture);
        for (uint64_t id = 0; id < count; id++)
            assert_true(damage_add(&damage, PHASE_TRAIN, id, &problem));
        capture_end(&capture, said, sizeof(said));
        for (const char *line = said; (line = strstr(line, "many: record ")) != NULL; line++)
            lines++;
        assert_int_equal(lines, count < 10 ? count : 10);
        const char *const more = strstr(said, "from here on they are only counted");
        assert_true((more != NULL) == (count > 10));
        assert_true(more == NULL || strstr(more + 1, "skipped: ") == NULL);
        damage_release(&damage);
    }
    dataset_close(dataset);
}

/* 31 is prime to the number of records, so every order below is another one. */
TEST(the_list_keeps_the_first_records_in_any_order_of_arrival)
{
    enum { COUNT = 1000 };
    for (uint32_t turn = 1; turn < COUNT; turn += 310) {
        struct damage_list *const list = calloc(1, sizeof(*list));
        assert_non_null(list);
        uint64_t lost = 0, listed = 0;
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t number = turn == 1 ? i : turn == 311 ? COUNT - 1 - i : i * 31 * turn % COUNT;
            const struct damaged_record record = {
                .phase = number >= 900, .shard = number / 100 % 9, .path = "x", .record = 1, .offset = number,
                .count = 1 + number % 7 };
            lost += record.count;
            damage_list_add(list, &record);
        }
        assert_int_equal(list->count, DAMAGE_LISTED_MAX);
        for (uint32_t i = 0; i < DAMAGE_LISTED_MAX; i++) {
            assert_int_equal(list->records[i].offset, i);
            listed += list->records[i].count;
        }
        assert_int_equal(list->unlisted, lost - listed);
        free(list);
    }
}

/* The bytes of a foreign record are right, so only parsing can find it. */
static void write_with_foreign_record(const char *name)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES + 1] = { 0 };
    make_shard(5);
    shard.begins[6] = shard.begins[5] + fixture_example("image_raw", pixels, sizeof(pixels), "label", 1,
                                                        shard.data + shard.begins[5]);
    shard.begins[7] = shard.begins[6] + fixture_example("image_raw", pixels, FIXTURE_SAMPLE_BYTES, "label", 10,
                                                        shard.data + shard.begins[6]);
    shard.begins[8] = shard.begins[7] + fixture_example("image_raw", pixels, FIXTURE_SAMPLE_BYTES, "cls", 1,
                                                        shard.data + shard.begins[7]);
    shard.count = 8;
    write_shard(name);
}

TEST(later_records_of_another_kind_are_named_or_skipped)
{
    write_with_foreign_record("foreign");
    const char *path = fixture_path(folder, "foreign");
    struct dataset *dataset = open_shard(path, false);
    struct harness harness = make_harness(dataset, NULL, false);
    harness.spec.shuffle = SHUFFLE_NONE;
    harness.spec.decode_threads = 1;
    harness_run(&harness);
    assert_int_equal(harness.code, EXIT_CODE_DATA);
    assert_non_null(strstr(harness.message, "foreign: record 5 at byte "));
    assert_non_null(strstr(harness.message, "has 25 bytes of pixels, the network wants 24 (4x3x2)"));
    harness_release(&harness);
    dataset_close(dataset);

    const bool bad[8] = { [5] = true, [6] = true, [7] = true };
    dataset = open_shard(path, true);
    harness = make_harness(dataset, dataset, true);
    harness_run(&harness);
    assert_skipped(&harness, bad);
    assert_int_equal(harness.counts.corrupt_records, 6);
    assert_non_null(strstr(harness.damages[1].problem.text, "label 10 is not in [0, 10)"));
    assert_non_null(strstr(harness.damages[2].problem.text, "has no feature 'label'"));
    harness_release(&harness);
    dataset_close(dataset);
}

/* The open descriptor sees damaged bytes, the second read, by name, whole ones. */
TEST(a_second_read_that_is_right_is_used)
{
    make_shard(12);
    write_shard("whole");
    for (uint32_t i = 4; i < 7; i++)
        damage_payload(i);
    const char *path = write_shard("moody");
    struct dataset *dataset = open_shard(path, false);
    assert_int_equal(rename(fixture_path(folder, "whole"), path), 0);
    for (int source = 0; source < KEEP_SIZES; source++) {
        struct harness harness = make_harness(dataset, dataset, false);
        harness.spec.keep_bytes = keep_sizes[source];
        harness_run(&harness);
        harness_assert_complete(&harness);
        assert_int_equal(harness.counts.corrupt_records, 0);
        harness_release(&harness);
    }
    dataset_close(dataset);
}

/* An index whose lengths lead through the shard, and are not those of two records in the middle: as it would be read
 * from a file that was forged. Both are whole, so none is left out. */
TEST(an_index_that_leads_astray_costs_no_record)
{
    for (int skips = 0; skips < 2; skips++) {
        make_shard(12);
        const char *const path = write_shard("astray");
        struct dataset *const dataset = open_shard(path, skips);
        dataset->indexes[0].lengths[5]++;
        dataset->indexes[0].lengths[6]--;
        atomic_store(&dataset->indexes[0].is_unproved, true);
        struct harness harness = make_harness(dataset, NULL, skips);
        harness_run(&harness);
        assert_int_equal(harness.code, EXIT_CODE_DATA);
        assert_non_null(strstr(harness.message, "astray: its index file says another length of a record than "
                                                "the record does: it is removed"));
        harness_release(&harness);
        dataset_close(dataset);
    }
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
