/* The loader: every record once, at a place that depends on nothing but the schedule, and
 * every way a run ends. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/loader_internal.h"
#include "loader/shard_store.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { TRAIN_RECORDS = 53, EVALUATION_RECORDS = 17, KEEP_SIZES = 3 };

static const size_t keep_sizes[KEEP_SIZES] = { 0, LOADER_KEEP_NONE, LOADER_KEEP_ALL };

static struct dataset *train, *evaluation;

static int make_sets(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    train = fixture_open_set("train", 3, TRAIN_RECORDS);
    evaluation = fixture_open_set("evaluation", 2, EVALUATION_RECORDS);
    return 0;
}

static int remove_sets(void **state)
{
    dataset_close(train);
    dataset_close(evaluation);
    return fixture_folder_remove(state);
}

static struct harness make_harness(uint32_t batch, uint32_t towers)
{
    return (struct harness){
        .spec = { .datasets = { train, evaluation }, .shuffle = SHUFFLE_FULL, .seed = 11, .read_threads = 1,
                  .decode_threads = 1 },
        .schedule = { .batch = batch, .towers = towers, .epochs = 2 },
        .depth = 2,
    };
}

/* What one reader, one decoder and one tower give: a fresh harness to compare with. */
static struct harness run_reference(uint32_t batch, enum shuffle shuffle)
{
    struct harness reference = make_harness(batch, 1);
    reference.spec.shuffle = shuffle;
    reference.spec.block_bytes = 600;
    reference.spec.window_bytes = 1800;
    harness_run(&reference);
    harness_assert_complete(&reference);
    return reference;
}

static void run_and_compare(struct harness *harness, const struct harness *reference)
{
    harness_run(harness);
    harness_assert_complete(harness);
    harness_assert_same(harness, reference);
    assert_int_equal(harness->counts.records, 2 * (TRAIN_RECORDS + EVALUATION_RECORDS));
    assert_int_equal(harness->counts.corrupt_records, 0);
    harness_release(harness);
}

TEST(same_batches_for_any_threads_depths_and_towers)
{
    const uint32_t batches[] = { 1, 7, 32, 200 }, readers[] = { 1, 2, 3 }, decoders[] = { 1, 2, 7 };
    const uint32_t depths[] = { 1, 4 }, towers[] = { 1, 2, 3, 5 };
    for (uint32_t i = 0; i < 4 * 3 * 3 * 2 * 4; i++) {
        static struct harness reference;
        const uint32_t batch = batches[i / 72];
        if (i % 72 == 0) {
            harness_release(&reference);
            reference = run_reference(batch, SHUFFLE_FULL);
        }
        struct harness harness = make_harness(batch, towers[i % 4]);
        harness.depth = depths[i / 4 % 2];
        harness.spec.decode_threads = decoders[i / 8 % 3];
        harness.spec.read_threads = readers[i / 24 % 3];
        run_and_compare(&harness, &reference);
        if (i + 1 == 4 * 72)
            harness_release(&reference);
    }
}

/* Processes that share a run's towers load each its own local batches, and together all of them. */
TEST(towers_of_several_processes_load_what_those_of_one_do)
{
    const struct tower_range ranges[] = { { 0, 2 }, { 2, 1 }, { 3, 2 } };
    struct harness reference = run_reference(7, SHUFFLE_FULL);
    const uint64_t places = reference.batch_count * reference.schedule.batch;
    uint64_t delivered = 0;
    for (size_t r = 0; r < 3; r++) {
        struct harness harness = make_harness(7, 5);
        harness.schedule.here = ranges[r];
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        for (uint64_t i = 0; i < places; i++) {
            if (harness.deliveries[i].times == 0)
                continue;
            assert_memory_equal(&harness.deliveries[i], &reference.deliveries[i], sizeof(*reference.deliveries));
            delivered++;
        }
        assert_true(harness.counts.records < reference.counts.records);
        harness_release(&harness);
    }
    assert_int_equal(delivered, reference.counts.records);
    harness_release(&reference);
}

TEST(same_batches_for_any_chunk_and_any_source)
{
    struct harness reference = run_reference(32, SHUFFLE_FULL);
    for (uint32_t chunk = 0; chunk <= 40; chunk++) {
        for (int source = 0; source < KEEP_SIZES; source++) {
            struct harness harness = make_harness(32, 2);
            harness.spec.chunk_records = chunk;
            harness.spec.keep_bytes = keep_sizes[source];
            harness.spec.read_threads = 2;
            harness.spec.decode_threads = 2;
            run_and_compare(&harness, &reference);
        }
    }
    harness_release(&reference);
}

/* Blocks of about `block_bytes`, windows of no more than `window_bytes`, read into memory. */
static void shuffle_blocks(struct harness *harness, size_t block_bytes, size_t window_bytes)
{
    harness->spec.shuffle = SHUFFLE_BLOCK;
    harness->spec.block_bytes = block_bytes;
    harness->spec.window_bytes = window_bytes;
    harness->spec.keep_bytes = LOADER_KEEP_NONE;
}

/* One record a block and a window; blocks over the ends of shards; the whole set a block. */
static const size_t block_sizes[][2] = { { 1, 1 }, { 600, 600 }, { 600, 2000 }, { 2500, 8000 }, { 1 << 20, 1 << 20 } };
enum { BLOCK_SIZES = sizeof(block_sizes) / sizeof(*block_sizes) };

static struct harness run_blocks(uint32_t batch, size_t kind)
{
    struct harness reference = make_harness(batch, 1);
    shuffle_blocks(&reference, block_sizes[kind][0], block_sizes[kind][1]);
    harness_run(&reference);
    harness_assert_complete(&reference);
    return reference;
}

TEST(blocks_give_the_same_batches_for_any_threads_and_towers)
{
    for (size_t kind = 0; kind < BLOCK_SIZES; kind++) {
        for (uint32_t batch = 1; batch <= 81; batch += 40) {
            struct harness reference = run_blocks(batch, kind);
            for (uint32_t i = 0; i < 18; i++) {
                struct harness harness = make_harness(batch, 1 + i % 3);
                shuffle_blocks(&harness, block_sizes[kind][0], block_sizes[kind][1]);
                harness.spec.keep_bytes = i % 5 == 4 ? LOADER_KEEP_ALL : LOADER_KEEP_NONE;
                harness.spec.chunk_records = i % 4;
                harness.spec.read_threads = 1 + i / 3 % 3;
                harness.spec.decode_threads = 1 + i / 9;
                run_and_compare(&harness, &reference);
            }
            harness_release(&reference);
        }
    }
}

/* Records of a block that follow each other in the file, one behind the other in a batch. */
static uint32_t count_neighbours(const struct harness *harness)
{
    uint32_t neighbours = 0;
    for (uint32_t i = 0; i + 1 < TRAIN_RECORDS; i++)
        neighbours += harness->deliveries[i].id + 1 == harness->deliveries[i + 1].id;
    return neighbours;
}

TEST(blocks_are_mixed)
{
    for (size_t kind = 0; kind < BLOCK_SIZES; kind++) {
        struct harness harness = run_blocks(TRAIN_RECORDS, kind);
        assert_true(count_neighbours(&harness) < TRAIN_RECORDS / 3);
        harness_release(&harness);
    }
}

TEST(blocks_are_read_once_an_epoch)
{
    uint64_t file_bytes = 0;
    for (int i = 0; i < 3; i++)
        file_bytes += train->indexes[i].bytes;
    for (size_t kind = 0; kind < BLOCK_SIZES; kind++) {
        struct harness harness = make_harness(8, 2);
        shuffle_blocks(&harness, block_sizes[kind][0], block_sizes[kind][1]);
        harness.spec.datasets[PHASE_EVALUATE] = NULL;
        harness.spec.read_threads = 2;
        harness.schedule.epochs = 5;
        harness_run(&harness);
        harness_assert_complete(&harness);
        assert_int_equal(harness.counts.bytes, 5 * file_bytes);
        harness_release(&harness);
    }
}

TEST(a_process_loads_its_part_of_every_window)
{
    struct harness reference = run_blocks(7, 2);
    for (uint32_t first = 0; first < 5; first++) {
        struct harness harness = make_harness(7, 5);
        shuffle_blocks(&harness, block_sizes[2][0], block_sizes[2][1]);
        harness.schedule.here = (struct tower_range){ first, 1 };
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        for (uint64_t i = 0; i < reference.batch_count * 7; i++)
            if (harness.deliveries[i].times > 0)
                assert_int_equal(harness.deliveries[i].id, reference.deliveries[i].id);
        assert_true(harness.counts.records < reference.counts.records);
        harness_release(&harness);
    }
    harness_release(&reference);
}

TEST(file_order_without_shuffle)
{
    struct harness reference = run_reference(10, SHUFFLE_NONE);
    for (uint64_t i = 0; i < TRAIN_RECORDS; i++)
        assert_int_equal(reference.deliveries[i].id, i);
    struct harness harness = make_harness(10, 3);
    harness.spec.shuffle = SHUFFLE_NONE;
    harness.spec.keep_bytes = 1;
    harness.spec.read_threads = 3;
    run_and_compare(&harness, &reference);
    harness_release(&reference);
}

TEST(evaluation_is_in_file_order_and_training_is_not)
{
    struct harness harness = run_reference(EVALUATION_RECORDS, SHUFFLE_FULL);
    uint32_t in_place = 0;
    for (uint64_t number = 0; number < harness.batch_count; number++) {
        const struct local_batch local = harness_span(&harness, number);
        for (uint32_t i = 0; i < local.count; i++) {
            const uint64_t id = harness.deliveries[number * EVALUATION_RECORDS + i].id;
            if (local.phase == PHASE_EVALUATE)
                assert_int_equal(id, local.first_position + i);
            else
                in_place += id == local.first_position + i;
        }
    }
    assert_true(in_place < 15);
    harness_release(&harness);
}

TEST(a_data_set_in_memory_is_read_once)
{
    uint64_t file_bytes = 0;
    for (int i = 0; i < 3; i++)
        file_bytes += train->indexes[i].bytes;
    for (int source = 0; source < KEEP_SIZES; source++) {
        struct harness harness = make_harness(8, 1);
        harness.spec.datasets[PHASE_EVALUATE] = NULL;
        harness.schedule.epochs = 5;
        harness.spec.keep_bytes = keep_sizes[source];
        harness_run(&harness);
        harness_assert_complete(&harness);
        assert_int_equal(harness.counts.bytes, keep_sizes[source] == LOADER_KEEP_NONE ? 5 * file_bytes : file_bytes);
        harness_release(&harness);
    }
}

TEST(one_sample_is_enough)
{
    fixture_write_shard(fixture_path(folder, "single.tfrecord"), 0, 1);
    const struct dataset_options options = fixture_options(fixture_path(folder, "single.tfrecord"));
    struct dataset *single = fixture_open(&options);
    for (uint32_t towers = 1; towers <= 3; towers++) {
        struct harness harness = make_harness(4, towers);
        harness.spec.datasets[PHASE_TRAIN] = single;
        harness.spec.datasets[PHASE_EVALUATE] = single;
        harness_run(&harness);
        harness_assert_complete(&harness);
        assert_int_equal(harness.counts.records, 4);
        harness_release(&harness);
    }
    dataset_close(single);
}

TEST(a_number_of_steps_and_dropped_batches_are_kept_to)
{
    struct harness harness = make_harness(16, 2);
    harness.schedule.drop_last = true;
    harness.schedule.epochs = 3;
    harness.schedule.steps = 5;
    harness_run(&harness);
    assert_string_equal(harness.message, "");
    assert_int_equal(harness.counts.records, 5 * 16 + 2 * EVALUATION_RECORDS);
    harness_release(&harness);
}

/* From batch `first` on as the whole run has it, and nothing of what was before. */
static void assert_tail(const struct harness *harness, const struct harness *whole)
{
    const uint64_t begin = harness->schedule.first * whole->schedule.batch;
    assert_int_equal(harness->batch_count, whole->batch_count);
    for (uint64_t i = 0; i < whole->batch_count * whole->schedule.batch; i++) {
        const struct delivery *delivery = &harness->deliveries[i], *expected = &whole->deliveries[i];
        assert_int_equal(delivery->times, i < begin ? 0 : expected->times);
        if (delivery->times == 0)
            continue;
        assert_int_equal(delivery->id, expected->id);
        assert_int_equal(delivery->label, expected->label);
        assert_true(delivery->pixels_hash == expected->pixels_hash);
    }
}

TEST(a_run_that_begins_with_any_batch_sees_the_tail_of_the_whole)
{
    static const enum shuffle shuffles[] = { SHUFFLE_FULL, SHUFFLE_NONE, SHUFFLE_BLOCK };
    for (int kind = 0; kind < 3; kind++) {
        struct harness whole = run_reference(7, shuffles[kind]);
        for (uint64_t first = 0; first <= whole.batch_count; first++) {
            struct harness harness = make_harness(7, 1 + (uint32_t)first % 3);
            harness.spec.shuffle = shuffles[kind];
            harness.spec.block_bytes = 600;
            harness.spec.window_bytes = 1800;
            harness.spec.read_threads = 2;
            harness.spec.decode_threads = 2;
            harness.spec.chunk_records = (uint32_t)first % 4;
            harness.spec.keep_bytes = keep_sizes[first % 2];
            harness.depth = 1 + (uint32_t)first % 4;
            harness.schedule.first = first;
            harness_run(&harness);
            assert_string_equal(harness.message, "");
            assert_tail(&harness, &whole);
            harness_release(&harness);
        }
        harness_release(&whole);
    }
}

static uint64_t count_changed(const struct harness *harness)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < harness->batch_count * harness->schedule.batch; i++) {
        const struct delivery *const delivery = &harness->deliveries[i];
        count += delivery->times > 0 && delivery->pixels_hash != harness_expected(delivery->id).pixels_hash;
    }
    return count;
}

/* Its own threads, towers and chunks for every `kind`. */
static struct harness run_augmented(const struct augment *augment, uint32_t kind, uint64_t first)
{
    struct harness harness = make_harness(7, 1 + kind % 3);
    harness.spec.augment = augment;
    harness.spec.decode_threads = 1 + kind % 4;
    harness.spec.read_threads = 1 + kind % 2;
    harness.spec.chunk_records = kind;
    harness.schedule.first = first;
    harness_run(&harness);
    assert_string_equal(harness.message, "");
    return harness;
}

/* Images change, by every rule, at the same places alike. */
TEST(augmented_batches_are_the_same_for_any_threads_towers_and_beginnings)
{
    for (enum crop crop = CROP_NONE; crop < CROP_COUNT; crop++) {
        const struct augment augment = { .seed = 5, .crop = { crop, CROP_AUTO }, .scale = 2, .pad = 1, .shift = 0.4,
                                         .flips = true, .changes_colour = crop % 2 == 0 };
        struct harness reference = run_augmented(&augment, 0, 0);
        assert_in_range(count_changed(&reference), TRAIN_RECORDS / 2, 2 * TRAIN_RECORDS);
        for (uint32_t kind = 1; kind < 8; kind++) {
            struct harness harness = run_augmented(&augment, kind, 0);
            harness_assert_same(&harness, &reference);
            harness_release(&harness);
            harness = run_augmented(&augment, kind, 2 * kind);
            assert_tail(&harness, &reference);
            harness_release(&harness);
        }
        harness_release(&reference);
    }
}

TEST(the_plan_knows_the_memory_before_the_start)
{
    struct harness harness = make_harness(16, 1);
    struct batch_layout layout;
    assert_int_equal(batch_layout_init(&layout, FIXTURE_HEIGHT, FIXTURE_WIDTH, FIXTURE_CHANNELS, 16), 0);
    harness.spec.layout = &layout;
    harness.spec.schedule = &harness.schedule;
    harness.spec.keep_bytes = LOADER_KEEP_NONE;
    const struct loader_memory plain = loader_memory(&harness.spec);
    harness.spec.keep_bytes = LOADER_KEEP_ALL;
    const struct loader_memory kept = loader_memory(&harness.spec);
    assert_in_range(plain.bytes, 1000, 1 << 20);
    assert_int_equal(plain.kept_bytes, 0);
    assert_int_equal(kept.bytes - plain.bytes, kept.kept_bytes);
    assert_int_equal(kept.kept_bytes, shard_store_bytes(train, NULL) + shard_store_bytes(evaluation, NULL));
    harness.spec.keep_bytes = shard_store_bytes(train, NULL);
    assert_int_equal(loader_memory(&harness.spec).kept_bytes, kept.kept_bytes);
    harness.spec.keep_bytes--;      /* of each data set by itself */
    assert_int_equal(loader_memory(&harness.spec).kept_bytes, shard_store_bytes(evaluation, NULL));
    harness.schedule.records[PHASE_TRAIN] = TRAIN_RECORDS;
    shuffle_blocks(&harness, 600, 2000);
    const struct order_shape shape = loader_order(&harness.spec);
    assert_int_equal(loader_memory(&harness.spec).bytes - plain.bytes, window_store_bytes(train, &shape, 1));
    assert_true(shape.window_blocks > 1 && loader_memory(&harness.spec).window_spare_bytes > 0);
}

/* Wherever the consumer is when it stops, all threads end. */
TEST(ends_early_after_any_number_of_batches)
{
    for (uint64_t after = 1; after <= 12; after++) {
        for (uint32_t towers = 1; towers <= 3; towers++) {
            struct harness harness = make_harness(5, towers);
            if (after % 2 == 0)
                shuffle_blocks(&harness, 600, 1800);
            harness.end_after = after;
            harness.depth = 1 + (uint32_t)after % 3;
            harness.spec.read_threads = 2;
            harness.spec.decode_threads = 2;
            harness_run(&harness);
            assert_string_equal(harness.message, "");
            harness_release(&harness);
        }
    }
}

/* In a process of its own, since the end of the test is the end of the process. */
static void lose_a_work(struct harness *harness)
{
    struct loader *const loader = harness->loader;
    struct chunk_buffer *buffer;
    signal(SIGABRT, SIG_DFL);
    if (chunk_buffer_take(loader, &buffer) < 0)
        _exit(0);
    loader_end(loader);
    loader_join(loader, NULL);
    loader_close(loader);
    _exit(0);
}

TEST(a_chunk_that_never_came_back_is_noticed_even_when_the_run_ended_early)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct harness harness = make_harness(5, 1);
        harness.after_start = lose_a_work;
        harness_run(&harness);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void read_name(const char *task, char name_out[16])
{
    char path[300];
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
    FILE *const file = fopen(path, "r");
    name_out[0] = '\0';
    if (file == NULL)
        return;     /* it has ended */
    (void)!fscanf(file, "%15s", name_out);
    fclose(file);
}

/* Threads of that name with that niceness or a greater one. */
static uint32_t count_nice(const char *name, int least)
{
    uint32_t count = 0;
    DIR *const tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char found[16];
        read_name(entry->d_name, found);
        count += strcmp(found, name) == 0 && getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name)) >= least;
    }
    closedir(tasks);
    return count;
}

static void await_nice(const char *name, int least, uint32_t wanted)
{
    for (int i = 0; i < 10000 && count_nice(name, least) != wanted; i++)
        usleep(1000);       /* it may be about to begin, and that of another test about to be gone */
    assert_int_equal(count_nice(name, least), wanted);
}

static void look_at_niceness(struct harness *harness)
{
    const int nicer = getpriority(PRIO_PROCESS, 0) + 1;
    const uint32_t wanted = harness->spec.gives_way;
    assert_int_equal(harness->start_result, 0);
    await_nice("reader0", nicer, wanted);
    await_nice("decoder0", nicer, wanted);
    await_nice("decoder1", nicer, wanted);
}

/* A step that stands still because a decoder has the core costs more than a batch that comes later. */
TEST(its_threads_lower_their_priority_below_compute_threads)
{
    const int own = getpriority(PRIO_PROCESS, 0);
    if (own == 19)
        skip();     /* no thread can be nicer */
    for (int gives_way = 0; gives_way <= 1; gives_way++) {
        struct harness harness = make_harness(5, 1);
        harness.spec.decode_threads = 2;
        harness.spec.gives_way = gives_way;
        harness.after_start = look_at_niceness;
        harness_run(&harness);
        assert_string_equal(harness.message, "");
        assert_int_equal(getpriority(PRIO_PROCESS, 0), own);
        harness_release(&harness);
    }
}

/* The file is cut after it was opened: an error with a name, not a signal. */
TEST(a_shard_cut_while_it_is_read_is_named)
{
    for (int source = 0; source < 3; source++) {
        const char *path = fixture_path(folder, "shrinking.tfrecord");
        fixture_write_shard(path, 0, 30);
        const struct dataset_options options = fixture_options(path);
        struct dataset *shrinking = fixture_open(&options);
        assert_int_equal(truncate(path, 1000), 0);
        struct harness harness = make_harness(8, 2);
        harness.spec.datasets[PHASE_TRAIN] = shrinking;
        harness.spec.keep_bytes = (size_t)source;
        if (source == 2)
            shuffle_blocks(&harness, 600, 1800);
        harness.spec.decode_threads = 2;
        harness_run(&harness);
        assert_int_equal(harness.code, EXIT_CODE_DATA);
        assert_non_null(strstr(harness.message, "shrinking.tfrecord: record "));
        assert_non_null(strstr(harness.message, "record is cut short"));
        assert_non_null(strstr(harness.message, "the file has changed since it was opened"));
        harness_release(&harness);
        dataset_close(shrinking);
    }
}

TESTS_MAIN(make_sets, remove_sets)
