/* Tests of what runs with model.parts save: the towers' parts become the files of a tower that has all of them, in
 * whichever processes the towers are, and such a file is read by towers with any parts. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/random.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/tools/run_directory_fixture.h"
#include "tools/lib/results/checkpoint_reader.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/checkpoint_writer.h"
#include "tools/lib/results/weights.h"

enum { PARTS = 4, BATCH = 8 };

static const struct pixels_text pixels = { .divisor = "255", .mean = "0", .deviation = "1" };
static const struct optimizer adam = { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f };
static const struct checkpoint_metadata metadata = { .position = { 3, 12, 2 }, .sums = "1 2 3", .progress = "4 5",
                                                     .files = CHECKPOINT_NEWEST, .best_by = "accuracy",
                                                     .best_value = 0.5 };

/* What is saved how: parts 0 is one tower with the whole net; the towers of a process are `each`. */
struct kind { uint32_t parts, towers, each; bool averages, stays, has_frozen; };

/* What a process has sent and rank 0 has not taken yet. */
struct sent {
    char bytes[1 << 16];
    size_t put, flushed, taken;
};

struct run {
    struct kind kind;
    struct net *net;
    struct head head;
    struct tower_fixture fixtures[PARTS];
    struct tower *towers[PARTS];
    struct snapshot *snapshots[PARTS];
    struct sent sent[PARTS];
};

/* ---- towers and their numbers ---- */

/* A trunk with statistics, and a head of two layers. */
static struct net *net_make(bool has_frozen)
{
    const struct batch_norm norm = { .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true };
    struct net *const net = network_net_begin("parts", (struct shape){ 1, 9, 7 }, 8);
    net_conv2d(net, "conv", NET_INPUT, 3, window_square(3, 1, PADDING_VALID), false);
    net_batch_norm(net, "norm", 0, norm);
    net_dense(net, "zebra", 1, 12, true);
    net_relu(net, "relu", 2);
    net_dense(net, "ant", 3, 8, true);
    net_softmax_loss(net, "loss", 4);
    assert_int_equal(net_finish(net), 0);
    for (uint32_t i = 0; i < net->parameter_count && has_frozen; i++)
        if (net->parameters[i].layer == 0 || net->parameters[i].layer == 2)
            net_freeze(net, i);
    return net;
}

/* The number of kind `what` of a parameter: a value, an average, or a state. Statistics are positive. */
static float number_of(uint32_t what, uint32_t parameter, size_t i)
{
    return (float)(random_u64(random_key(what, RANDOM_DRAW, parameter), i) % 1000) / 1000 + 0.25f;
}

enum { VALUE, AVERAGE, STATE };

static void fill(float *numbers, const struct net *net, uint32_t what, uint32_t parameter)
{
    for (size_t i = 0; i < net->parameters[parameter].count; i++)
        numbers[i] = number_of(what, parameter, i);
}

/* Set weights, states and averages of a tower to the numbers of number_of, or to zeros. */
static void write_tower(const struct run *run, struct tower *tower, bool zeros)
{
    const uint32_t states = tower_state_count(tower_spec(tower));
    float *const numbers = calloc(net_most_numbers(run->net), sizeof(*numbers));
    for (uint32_t p = 0; p < run->net->parameter_count; p++) {
        if (!zeros)
            fill(numbers, run->net, VALUE, p);
        assert_int_equal(tower_write(tower, p, numbers), 0);
        uint32_t i = NET_NO_PARAMETER;
        while ((i = tower_piece(tower, p, i)) != NET_NO_PARAMETER) {
            const float *const own = numbers + tower_piece_first(tower, i);
            if (!zeros)
                fill(numbers, run->net, AVERAGE, p);
            assert_true(!run->kind.averages || snapshot_write_average(tower, i, own) == 0);
            for (uint32_t s = 0; s < states && parameter_is_updated(&run->net->parameters[p]); s++) {
                if (!zeros)
                    fill(numbers, run->net, STATE + s, p);
                assert_int_equal(snapshot_write_state(tower, s, i, own), 0);
            }
        }
    }
    free(numbers);
}

static struct tower_spec spec_of(struct run *run, uint32_t d)
{
    const struct kind *const kind = &run->kind;
    struct tower_spec spec = tower_fixture_spec(&run->fixtures[d], "reference", run->net);
    const uint32_t count = PARTS / kind->towers;
    spec.index = d;
    spec.optimizer = adam;
    spec.average_decay = kind->averages ? 0.9 : 0;
    spec.slices = (struct tower_slices){ .all = PARTS, .first = d * count, .count = count };
    spec.backend_spec.local_max = BATCH;
    spec.train_counts[0] = BATCH / PARTS;
    spec.evaluate_counts[0] = 0;
    if (kind->parts > 0)
        spec.parts = (struct tower_parts){ .all = PARTS, .first = d * count, .count = count, .batch = BATCH };
    return spec;
}

static struct run *run_open(const struct kind *kind)
{
    struct run *const run = calloc(1, sizeof(*run));
    struct unsupported_reason reason;
    assert_non_null(run);
    run->kind = *kind;
    run->net = net_make(kind->has_frozen);
    assert_int_equal(head_find(&run->head, run->net, PARTS, &reason), 0);
    for (uint32_t d = 0; d < kind->towers; d++) {
        tower_fixture_open_device(&run->fixtures[d], "reference");
        const struct tower_spec spec = spec_of(run, d);
        tower_fixture_open_tower(&run->fixtures[d], &spec);
        run->towers[d] = run->fixtures[d].tower;
        write_tower(run, run->towers[d], false);
    }
    return run;
}

static void drop_snapshots(struct run *run)
{
    for (uint32_t d = 0; d < run->kind.towers; d++) {
        snapshot_close(run->snapshots[d]);
        run->snapshots[d] = NULL;
    }
}

static void run_close(struct run *run)
{
    drop_snapshots(run);
    for (uint32_t d = 0; d < run->kind.towers; d++)
        tower_fixture_close(&run->fixtures[d]);
    net_close(run->net);
    free(run);
}

static void take_snapshots(struct run *run, enum snapshot_kind kind)
{
    drop_snapshots(run);
    for (uint32_t d = 0; d < run->kind.towers; d++)
        run->snapshots[d] = tower_fixture_snapshot(&run->fixtures[d], kind);
}

static struct checkpoint_parts parts_of(const struct run *run)
{
    return (struct checkpoint_parts){ .all = run->kind.parts, .first = run->head.first };
}

static struct tower_range here_of(const struct run *run, uint32_t rank)
{
    return (struct tower_range){ rank * run->kind.each, run->kind.each };
}

static struct checkpoint_shape shape_of(const struct run *run)
{
    return (struct checkpoint_shape){
        .net = run->net, .towers = run->kind.towers, .parts = parts_of(run), .here = here_of(run, 0), .states = 2,
        .averages = run->kind.averages, .is_same = true, .stays = run->kind.stays,
    };
}

/* ---- several processes ---- */

static int put(void *arg, const void *data, size_t bytes, int error)
{
    struct sent *const sent = arg;
    assert_true(bytes <= sizeof(sent->bytes) - sent->put && error == 0);
    memcpy(sent->bytes + sent->put, data, bytes);
    sent->put += bytes;
    return 0;
}

static int flush(void *arg)
{
    struct sent *const sent = arg;
    assert_true(sent->put > sent->flushed);
    sent->flushed = sent->put;
    return 0;
}

static int take(void *arg, uint32_t tower, void *out, size_t bytes)
{
    struct run *const run = arg;
    struct sent *const sent = &run->sent[tower / run->kind.each];
    assert_true(tower >= run->kind.each && bytes <= sent->flushed - sent->taken);
    memcpy(out, sent->bytes + sent->taken, bytes);
    sent->taken += bytes;
    return 0;
}

/* Send what processes other than rank 0 have: from snapshots, or from the towers themselves. */
static void send_all(struct run *run, struct checkpoint_shape shape, bool from_towers)
{
    for (uint32_t rank = 1; rank < run->kind.towers / run->kind.each; rank++) {
        struct sent *const sent = &run->sent[rank];
        const struct checkpoint_sink sink = { put, flush, sent };
        struct checkpoint_sender *sender;
        *sent = (struct sent){ .put = 0 };
        shape.here = here_of(run, rank);
        assert_int_equal(checkpoint_sender_open(&sender, &shape, &sink), 0);
        assert_int_equal(from_towers ? checkpoint_sender_send_towers(sender, run->towers + shape.here.first)
                                     : checkpoint_sender_send(sender, run->snapshots + shape.here.first), 0);
        assert_int_equal(sent->put, checkpoint_sender_total(&shape));
        assert_int_equal(sent->flushed, sent->put);
        checkpoint_sender_close(sender);
    }
}

static void assert_all_taken(const struct run *run)
{
    for (uint32_t rank = 1; rank < run->kind.towers / run->kind.each; rank++)
        assert_int_equal(run->sent[rank].taken, run->sent[rank].put);
}

/* ---- files ---- */

static struct run_directory *directory_open(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/run", folder);
    return run_fixture_begin("test", path);
}

/* The content of a file of the directory, which is removed; to be freed. */
static uint8_t *file_take(const struct run_directory *directory, const char *name, size_t *bytes_out)
{
    char path[700];
    snprintf(path, sizeof(path), "%s/%s", run_directory_path(directory), name);
    uint8_t *const file = fixture_read(path, bytes_out);
    assert_int_equal(unlink(path), 0);
    return file;
}

/* The checkpoint of the run's towers, as a file of the directory. */
static void save_checkpoint(struct run *run, struct run_directory *directory)
{
    const struct checkpoint_shape shape = shape_of(run);
    const struct checkpoint_source source = { take, run };
    struct weights_about *about;
    struct checkpoint_writer *writer;
    const char *broken;
    take_snapshots(run, run->kind.stays ? SNAPSHOT_LAST : SNAPSHOT_STATE);
    assert_int_equal(weights_about_open(&about, run->net, &pixels), 0);
    assert_int_equal(checkpoint_writer_open(&writer, &shape, &source, "a = 1\n", about), 0);
    send_all(run, shape, false);
    assert_int_equal(checkpoint_writer_copy(writer, run->snapshots, &metadata), 0);
    assert_all_taken(run);
    assert_int_equal(checkpoint_writer_write(writer, directory, 9, &broken), 0);
    checkpoint_writer_close(writer);
    weights_about_close(about);
}

static struct weights *weights_make(struct run *run, bool borrows)
{
    const struct checkpoint_source source = { take, run };
    const struct weights_spec spec = { .net = run->net, .parts = parts_of(run), .towers = run->kind.towers,
                                       .here = here_of(run, 0), .borrows = borrows, .best_settings = "a = 1\n" };
    struct weights *weights;
    assert_int_equal(weights_open(&weights, spec, &pixels), 0);
    weights_set_source(weights, &source);
    return weights;
}

/* The weights of an evaluation with these towers, and then those of the towers, as files of the directory. */
static void save_weights(struct run *run, struct run_directory *directory, bool borrows)
{
    const struct checkpoint_shape shape = weights_shape((struct weights_spec){
        .net = run->net, .parts = parts_of(run), .towers = run->kind.towers, .here = here_of(run, 0) });
    struct weights *const weights = weights_make(run, borrows);
    const char *broken;
    take_snapshots(run, SNAPSHOT_EVALUATED);
    send_all(run, shape, false);
    assert_int_equal(weights_save_best(weights, directory, run->snapshots, &metadata, &broken), 0);
    assert_all_taken(run);
    send_all(run, shape, true);
    assert_int_equal(weights_save(weights, directory, WEIGHTS_FILE, run->towers, 80, &broken), 0);
    assert_all_taken(run);
    weights_close(weights);
}

enum { FILES = 3 };
static const char *const names[FILES] = { "checkpoint-00000012.safetensors", CHECKPOINT_BEST_FILE, WEIGHTS_FILE };
struct files { uint8_t *files[FILES]; size_t bytes[FILES]; };

static struct files files_of(const struct kind *kind)
{
    struct files files;
    struct run *const run = run_open(kind);
    struct run_directory *const directory = directory_open();
    save_weights(run, directory, kind->stays);
    save_checkpoint(run, directory);
    for (int i = 0; i < FILES; i++)
        files.files[i] = file_take(directory, names[i], &files.bytes[i]);
    run_directory_close(directory);
    run_close(run);
    return files;
}

static void files_release(struct files *files)
{
    for (int i = 0; i < FILES; i++)
        free(files->files[i]);
}

static void check_files(const struct kind *kind, const struct files *expected)
{
    struct files found = files_of(kind);
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(found.bytes[i], expected->bytes[i]);
        assert_memory_equal(found.files[i], expected->files[i], found.bytes[i]);
    }
    files_release(&found);
}

/* With averages a checkpoint has the trained weights, too, and an evaluation has the averages. With `stays` the towers'
 * memory is the buffer, or part of it. */
TEST_WITH(parts_of_any_towers_make_the_files_of_one_tower, fixture_folder_make, fixture_folder_remove)
{
    static const struct kind kinds[] = { { .stays = false }, { .averages = true }, { .stays = true },
                                         { .has_frozen = true }, { .has_frozen = true, .stays = true } };
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        struct kind kind = kinds[k];
        kind.towers = kind.each = 1;
        struct files expected = files_of(&kind);
        kind.parts = PARTS;
        for (kind.towers = 1; kind.towers <= PARTS; kind.towers *= 2)
            for (kind.each = 1; kind.each <= kind.towers; kind.each *= 2)
                check_files(&kind, &expected);
        files_release(&expected);
    }
}

/* ---- there and back ---- */

/* A run of `kind` that resumes from a checkpoint of a run of `saved` saves the same numbers again. */
static void check_resume(const struct kind *saved, const struct kind *kind)
{
    struct checkpoint_reader *reader;
    struct checkpoint_problem problem;
    size_t bytes, again_bytes;
    char path[700];
    struct run_directory *const directory = directory_open();
    struct run *const before = run_open(saved), *const run = run_open(kind);
    save_checkpoint(before, directory);
    run_close(before);
    snprintf(path, sizeof(path), "%s/%s", run_directory_path(directory), names[0]);
    assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
    for (uint32_t d = 0; d < kind->towers; d++) {
        write_tower(run, run->towers[d], true);
        assert_int_equal(checkpoint_reader_write(reader, run->towers[d], d, kind->towers, &problem), 0);
    }
    checkpoint_reader_close(reader);
    uint8_t *const file = file_take(directory, names[0], &bytes);
    save_checkpoint(run, directory);
    uint8_t *const again = file_take(directory, names[0], &again_bytes);
    assert_int_equal(again_bytes, bytes);
    assert_memory_equal(again, file, bytes);
    free(again);
    free(file);
    run_directory_close(directory);
    run_close(run);
}

TEST_WITH(a_checkpoint_goes_on_with_other_towers_and_without_parts, fixture_folder_make, fixture_folder_remove)
{
    for (int averages = 0; averages < 2; averages++) {
        const struct kind whole = { .towers = 1, .each = 1, .averages = averages };
        const struct kind one = { PARTS, 1, 1, .averages = averages }, two = { PARTS, 2, 1, .averages = averages };
        const struct kind four = { PARTS, 4, 2, .averages = averages };
        check_resume(&whole, &four);
        check_resume(&four, &two);
        check_resume(&two, &one);
        check_resume(&four, &whole);
    }
}

/* ---- memory, and numbers that are not finite ---- */

/* The first tower's snapshot has everything, the others only have what is theirs; so they need no more memory together
 * than one of the whole net. */
TEST(a_snapshot_has_what_the_first_tower_has_not)
{
    const enum snapshot_kind snapshot_kinds[] = { SNAPSHOT_STATE, SNAPSHOT_SHOWN, SNAPSHOT_EVALUATED };
    struct run *const whole = run_open(&(struct kind){ .towers = 1, .each = 1, .averages = true });
    struct run *const run = run_open(&(struct kind){ PARTS, PARTS, PARTS, .averages = true });
    const size_t head = whole->net->parameters[whole->net->layers[run->head.first].parameters[PARAMETER_WEIGHT]].count;
    for (int k = 0; k < 3; k++) {
        size_t bytes = 0;
        for (uint32_t d = 0; d < PARTS; d++)
            bytes += snapshot_bytes(run->towers[d], snapshot_kinds[k]);
        /* The parts of a bias are padded. */
        const size_t all = snapshot_bytes(whole->towers[0], snapshot_kinds[k]);
        assert_in_range(bytes, all, all + 8 * PARTS * 2 * 2 * 64);
        assert_true(snapshot_bytes(run->towers[1], snapshot_kinds[k]) >= head / PARTS * sizeof(float));
        assert_true(snapshot_bytes(run->towers[1], snapshot_kinds[k]) < all / 2);
    }
    run_close(whole);
    run_close(run);
}

/* The writer needs room for parts that are not here; a tower's own stay in its memory. */
TEST(only_parts_of_other_processes_need_room)
{
    struct run *const run = run_open(&(struct kind){ PARTS, PARTS, 2, .stays = true });
    struct checkpoint_shape shape = shape_of(run);
    const size_t with_others = checkpoint_writer_bytes(&shape, "");
    shape.here = (struct tower_range){ 0, PARTS };
    const size_t alone = checkpoint_writer_bytes(&shape, "");
    shape.here = (struct tower_range){ 2, 2 };
    assert_int_equal(with_others - alone, checkpoint_sender_total(&shape));
    assert_int_equal(checkpoint_snapshots(&shape), 2);
    assert_true(checkpoint_has_others(&shape));
    run_close(run);
}

/* A part that is not finite is found in whichever tower it is, and everything that is sent is taken all the same. */
TEST_WITH(a_broken_part_names_the_whole_weight, fixture_folder_make, fixture_folder_remove)
{
    static const uint32_t units[] = { 0, 4, 11 };
    for (size_t u = 0; u < sizeof(units) / sizeof(*units); u++) {
        struct run *const run = run_open(&(struct kind){ PARTS, PARTS, 2, .stays = false });
        struct run_directory *const directory = directory_open();
        struct weights *const weights = weights_make(run, true);
        const uint32_t weight = run->net->layers[run->head.first].parameters[PARAMETER_WEIGHT];
        const struct parameter *const broken_one = &run->net->parameters[weight];
        float *const numbers = calloc(broken_one->count, sizeof(*numbers));
        const char *broken = NULL;
        const struct checkpoint_shape shape = weights_shape((struct weights_spec){
            .net = run->net, .parts = parts_of(run), .towers = PARTS });
        numbers[units[u] * (broken_one->count / broken_one->dims[0])] = INFINITY;
        for (uint32_t d = 0; d < PARTS; d++)
            assert_int_equal(tower_write(run->towers[d], weight, numbers), 0);
        send_all(run, shape, true);
        assert_int_equal(weights_save(weights, directory, WEIGHTS_FILE, run->towers, 80, &broken), -EDOM);
        assert_string_equal(broken, "zebra.weight");
        assert_all_taken(run);
        weights_close(weights);
        free(numbers);
        run_directory_close(directory);
        run_close(run);
    }
}

TESTS_MAIN(NULL, NULL)
