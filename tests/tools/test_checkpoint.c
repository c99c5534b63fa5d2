/* Tests of checkpoints: what is written is read, all of it, and every byte of it matters; and the file is the same
 * where the towers are in several processes. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "compute/snapshot.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/tools/run_directory_fixture.h"
#include "tools/lib/results/checkpoint_reader.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/checkpoint_writer.h"
#include "tools/lib/results/file_list.h"

enum { TOWERS = 2, TOWERS_MAX = 4, TEXT_BYTES = 8192 };

static const struct optimizer momentum = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };

/* What a checkpoint is of; average_decay 0: no averages. */
struct kind { bool weights_differ, is_same, stays; double average_decay; };

/* A run's towers, each of other numbers, and its directory. */
struct fixture {
    struct net *net;
    struct tower_fixture towers[TOWERS_MAX];
    struct snapshot *snapshots[TOWERS_MAX];
    struct run_directory *directory;
    struct checkpoint_shape shape;      /* of one process with all towers */
    struct weights_about *about;
    struct checkpoint_writer *writer;
};

static const struct pixels_text pixels = { .divisor = "255", .mean = "0", .deviation = "1" };

static struct net *net_make(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 1, 9, 7 }, 4), 0);
    net_conv2d(net, "conv", NET_INPUT, 2, window_square(3, 1, PADDING_VALID), false);
    net_batch_norm(net, "norm", 0, (struct batch_norm){ .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true });
    net_global_average(net, "mean", 1);
    net_dense(net, "fc", 2, 4, true);
    net_softmax_loss(net, "loss", 3);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static void tower_fixture_train_once(struct fixture *fixture, uint32_t d, uint32_t seed)
{
    struct backend_input input = network_input(fixture->net, FIXTURE_BATCH, seed);
    tower_fixture_fill(&fixture->towers[d], fixture->net, &input, 0, FIXTURE_BATCH);
    tower_fixture_train(&fixture->towers[d]);
    tower_fixture_update(&fixture->towers[d]);
    assert_int_equal(tower_update_average(fixture->towers[d].tower, 1), 0);
    network_input_release(&input);
}

static void tower_fixture_begin(struct fixture *fixture, uint32_t d, const struct kind *kind)
{
    tower_fixture_open_device(&fixture->towers[d], "reference");
    struct tower_spec spec = tower_fixture_spec(&fixture->towers[d], "reference", fixture->net);
    spec.optimizer = momentum;
    spec.seed = 7 + d;
    spec.average_decay = kind->average_decay;
    tower_fixture_open_tower(&fixture->towers[d], &spec);
    tower_fixture_train_once(fixture, d, 100 + d);
    assert_int_equal(snapshot_open(&fixture->snapshots[d], fixture->towers[d].tower,
                                   kind->stays ? SNAPSHOT_LAST : SNAPSHOT_STATE), 0);
}

/* Without a writer. */
static void fixture_open_towers(struct fixture *fixture, uint32_t towers, const struct kind *kind)
{
    char path[600];
    *fixture = (struct fixture){ .net = net_make() };
    for (uint32_t d = 0; d < towers; d++)
        tower_fixture_begin(fixture, d, kind);
    snprintf(path, sizeof(path), "%s/run", folder);
    fixture->directory = run_fixture_begin("test", path);
    fixture->shape = (struct checkpoint_shape){ .net = fixture->net, .towers = towers, .states = 1,
                                                .averages = kind->average_decay > 0, .stays = kind->stays,
                                                .is_same = kind->is_same, .weights_differ = kind->weights_differ };
    assert_int_equal(weights_about_open(&fixture->about, fixture->net, &pixels), 0);
}

/* The writer for the towers `here`, with a source of the others. */
static void fixture_open_writer(struct fixture *fixture, struct tower_range here,
                                const struct checkpoint_source *source)
{
    struct checkpoint_shape shape = fixture->shape;
    shape.here = here;
    assert_int_equal(checkpoint_writer_open(&fixture->writer, &shape, source, "a = 1\nb = \"2\"\n", fixture->about), 0);
}

static void fixture_open_kind(struct fixture *fixture, const struct kind *kind)
{
    fixture_open_towers(fixture, TOWERS, kind);
    fixture_open_writer(fixture, fixture->shape.here, NULL);
}

static void fixture_open(struct fixture *fixture, bool weights_differ)
{
    fixture_open_kind(fixture, &(struct kind){ .weights_differ = weights_differ });
}

static void fixture_close(struct fixture *fixture)
{
    checkpoint_writer_close(fixture->writer);
    weights_about_close(fixture->about);
    run_directory_close(fixture->directory);
    for (uint32_t d = 0; d < fixture->shape.towers; d++) {
        snapshot_close(fixture->snapshots[d]);
        tower_fixture_close(&fixture->towers[d]);
    }
    net_close(fixture->net);
}

static void take_snapshots(struct fixture *fixture)
{
    for (uint32_t d = 0; d < fixture->shape.towers; d++) {
        assert_int_equal(snapshot_queue(fixture->snapshots[d]), 0);
        assert_int_equal(event_wait(snapshot_end(fixture->snapshots[d])), 0);
    }
}

/* Save a checkpoint at `step` with `keep`; the path of its file. */
static const char *save(struct fixture *fixture, uint64_t step, uint32_t keep)
{
    static char path[700];
    char name[CHECKPOINT_FILE_BYTES];
    const char *broken;
    struct checkpoint_metadata metadata = { .position = { 3, step, 2 }, .lines_bytes = { 11, 22 }, .sums = "1 2 3",
                                    .progress = "4 5", .files = CHECKPOINT_NEWEST };
    take_snapshots(fixture);
    assert_int_equal(checkpoint_writer_copy(fixture->writer, fixture->snapshots, &metadata), 0);
    assert_int_equal(checkpoint_writer_write(fixture->writer, fixture->directory, keep, &broken), 0);
    checkpoint_file_name(step, name);
    snprintf(path, sizeof(path), "%s/%s", run_directory_path(fixture->directory), name);
    return path;
}

/* All numbers of a tower: values, the optimizer's buffer, then averages where it keeps some; to be freed. */
static float *numbers_of(struct fixture *fixture, uint32_t d, size_t *count_out)
{
    size_t count = 0;
    for (uint32_t p = 0; p < fixture->net->parameter_count; p++)
        count += fixture->net->parameters[p].count;
    float *const numbers = calloc(3 * count, sizeof(*numbers));
    float *next = numbers;
    assert_int_equal(snapshot_queue(fixture->snapshots[d]), 0);
    assert_int_equal(event_wait(snapshot_end(fixture->snapshots[d])), 0);
    for (uint32_t p = 0; p < fixture->net->parameter_count; next += fixture->net->parameters[p++].count)
        assert_int_equal(snapshot_value(fixture->snapshots[d], p, next), 0);
    for (uint32_t p = 0; p < fixture->net->parameter_count; next += fixture->net->parameters[p++].count)
        assert_true(!fixture->net->parameters[p].is_trained ||
                    snapshot_state(fixture->snapshots[d], 0, p, next) == 0);
    for (uint32_t p = 0; p < fixture->net->parameter_count; next += fixture->net->parameters[p++].count)
        assert_true(!fixture->shape.averages || snapshot_average(fixture->snapshots[d], p, next) == 0);
    *count_out = 3 * count;
    return numbers;
}

/* ---- there and back ---- */

static void check_round_trip(const struct kind *kind)
{
    struct fixture fixture;
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    float *before[TOWERS];
    size_t count;
    fixture_open_kind(&fixture, kind);
    const char *const path = save(&fixture, 12, 2);
    for (uint32_t d = 0; d < TOWERS; d++) {
        before[d] = numbers_of(&fixture, d, &count);
        tower_fixture_train_once(&fixture, d, 200);
    }
    assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
    const struct checkpoint_metadata *const metadata = &reader->metadata;
    assert_int_equal(metadata->position.epoch, 3);
    assert_int_equal(metadata->position.step, 12);
    assert_int_equal(metadata->position.evaluated, 2);
    assert_int_equal(metadata->lines_bytes[RUN_METRICS], 11);
    assert_int_equal(metadata->lines_bytes[RUN_QUARANTINE], 22);
    assert_string_equal(metadata->sums, "1 2 3");
    assert_string_equal(metadata->progress, "4 5");
    assert_string_equal(reader->settings, "a = 1\nb = \"2\"\n");
    assert_int_equal(reader->towers, TOWERS);
    for (uint32_t d = 0; d < TOWERS; d++) {
        assert_int_equal(checkpoint_reader_write(reader, fixture.towers[d].tower, d, TOWERS, &problem), 0);
        float *const after = numbers_of(&fixture, d, &count);
        if (d == 0 || kind->weights_differ)
            assert_memory_equal(before[d], after, count * sizeof(*after));
        free(after);
    }
    checkpoint_reader_close(reader);
    for (uint32_t d = 0; d < TOWERS; d++)
        free(before[d]);
    fixture_close(&fixture);
}

TEST_WITH(a_state_is_read_as_it_was_saved, fixture_folder_make, fixture_folder_remove)
{
    for (int averages = 0; averages < 2; averages++) {
        check_round_trip(&(struct kind){ .weights_differ = true, .average_decay = 0.75 * averages });
        check_round_trip(&(struct kind){ .average_decay = 0.75 * averages });
    }
}

TEST_WITH(a_state_without_weights_beside_averages_is_not_read_into_towers_that_keep_both, fixture_folder_make,
          fixture_folder_remove)
{
    struct fixture fixture;
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem = { "" };
    fixture_open(&fixture, false);
    assert_int_equal(rename(save(&fixture, 1, 1), fixture_path(folder, "state")), 0);
    fixture_close(&fixture);
    fixture_open_kind(&fixture, &(struct kind){ .average_decay = 0.75 });
    assert_int_equal(checkpoint_reader_open(&reader, fixture_path(folder, "state"), &problem), 0);
    assert_int_equal(checkpoint_reader_write(reader, fixture.towers[0].tower, 0, TOWERS, &problem), -EINVAL);
    assert_non_null(strstr(problem.text, "has no tensor 'raw."));
    checkpoint_reader_close(reader);
    fixture_close(&fixture);
}

static float first_number(struct fixture *fixture, uint32_t d, const char *parameter)
{
    float numbers[64];
    uint32_t p = 0;
    while (strcmp(fixture->net->parameters[p].name, parameter) != 0)
        p++;
    assert_int_equal(tower_read(fixture->towers[d].tower, p, numbers), 0);
    return numbers[0];
}

TEST_WITH(other_numbers_of_towers_get_the_mean, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    fixture_open(&fixture, false);
    const char *const path = save(&fixture, 1, 1);
    const float weight = first_number(&fixture, 0, "conv.weight");
    const float sum = first_number(&fixture, 0, "norm.running_mean") + first_number(&fixture, 1, "norm.running_mean");
    assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
    assert_int_equal(checkpoint_reader_write(reader, fixture.towers[1].tower, 0, 1, &problem), 0);
    assert_true(first_number(&fixture, 1, "conv.weight") == weight);
    assert_true(fabsf(first_number(&fixture, 1, "norm.running_mean") - sum / 2) < 1e-6f);
    checkpoint_reader_close(reader);
    fixture_close(&fixture);
}

/* ---- damage ---- */

static void assert_damaged(const char *path, const char *how, size_t at)
{
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem = { "" };
    if (checkpoint_reader_open(&reader, path, &problem) == 0)
        fail_msg("%s at byte %zu was not noticed", how, at);
    assert_true(problem.text[0] != '\0');
}

TEST_WITH(every_byte_and_every_length_matters, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    size_t count;
    fixture_open(&fixture, false);
    const char *const path = save(&fixture, 5, 1);
    uint8_t *const bytes = fixture_read(path, &count);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= 0x20;
        fixture_write(path, bytes, count);
        assert_damaged(path, "a flipped bit", i);
        bytes[i] ^= 0x20;
    }
    for (size_t i = 0; i < count; i += 1 + i / 64) {
        fixture_write(path, bytes, i);
        assert_damaged(path, "the end", i);
    }
    fixture_write(path, bytes, count);
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
    checkpoint_reader_close(reader);
    free(bytes);
    fixture_close(&fixture);
}

/* ---- forged: every hash is right, and a number is not ---- */

/* Make the header's hash anew. */
static void hash_again(char *header, size_t bytes)
{
    char digits[TENSOR_HASH_DIGITS + 1];
    char *const place = strstr(header, "\"" CHECKPOINT_KEY_HEADER "\":\"") + sizeof(CHECKPOINT_KEY_HEADER) + 3;
    memset(place, '0', TENSOR_HASH_DIGITS);
    snprintf(digits, sizeof(digits), "%016" PRIx64, (uint64_t)XXH3_64bits(header, bytes));
    memcpy(place, digits, TENSOR_HASH_DIGITS);
}

/* The file with `value` under `key` of its metadata, as whole as any. */
static void forge(const char *path, const char *key, const char *value)
{
    char quoted[64];
    size_t bytes;
    uint64_t header_bytes;
    char *const whole = (char *)fixture_read(path, &bytes);
    memcpy(&header_bytes, whole, sizeof(header_bytes));
    char *const header = whole + sizeof(header_bytes), *const data = header + header_bytes;
    char *const forged = calloc(1, bytes + 64);
    const char before = *data;
    *data = '\0';
    snprintf(quoted, sizeof(quoted), "\"%s\":\"", key);
    char *const place = strstr(header, quoted);
    assert_non_null(place);
    const size_t front = (size_t)(place - header) + strlen(quoted);
    const int written = snprintf(forged + sizeof(header_bytes), bytes, "%.*s%s%s", (int)front, header, value,
                                 strchr(header + front, '"'));
    header_bytes = (uint64_t)written;
    memcpy(forged, &header_bytes, sizeof(header_bytes));
    hash_again(forged + sizeof(header_bytes), header_bytes);
    *data = before;
    memcpy(forged + sizeof(header_bytes) + header_bytes, data, (size_t)(whole + bytes - data));
    fixture_write(path, forged, sizeof(header_bytes) + header_bytes + (size_t)(whole + bytes - data));
    free(forged);
    free(whole);
}

TEST_WITH(numbers_that_no_run_has_are_refused_by_name, fixture_folder_make, fixture_folder_remove)
{
    static const struct { const char *key, *value, *told; } cases[] = {
        { CHECKPOINT_KEY_TOWERS, "0", "its pipetrain.towers is 0, but a run has 1 to 65536 towers" },
        { CHECKPOINT_KEY_TOWERS, "65537", "its pipetrain.towers is 65537," },
        { CHECKPOINT_KEY_TOWERS, "4294967295", "its pipetrain.towers is 4294967295," },
        { CHECKPOINT_KEY_TOWERS, "4294967297", "its pipetrain.towers is 4294967297," },
        { CHECKPOINT_KEY_TOWERS, "-1", "its pipetrain.towers is -1," },
        { CHECKPOINT_KEY_POSITION, "4294967296 0 0", "its pipetrain.position is '4294967296 0 0'," },
    };
    struct fixture fixture;
    fixture_open(&fixture, false);
    const char *const path = save(&fixture, 5, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct checkpoint_reader *reader = NULL;
        struct checkpoint_problem problem = { "" };
        forge(path, cases[i].key, cases[i].value);
        assert_int_equal(checkpoint_reader_open(&reader, path, &problem), -EBADMSG);
        if (strstr(problem.text, cases[i].told) == NULL)
            fail_msg("%s = %s: '%s'", cases[i].key, cases[i].value, problem.text);
        forge(path, cases[i].key, cases[i].key == cases[0].key ? "2" : "3 5 2");
        assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
        checkpoint_reader_close(reader);
    }
    fixture_close(&fixture);
}

/* The mean over 65,536 towers is one over the two that the file has. */
TEST_WITH(towers_that_a_state_only_claims_cost_nothing, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    fixture_open(&fixture, false);
    const char *const path = save(&fixture, 5, 1);
    const float sum = first_number(&fixture, 0, "norm.running_mean") + first_number(&fixture, 1, "norm.running_mean");
    forge(path, CHECKPOINT_KEY_TOWERS, "65536");
    assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
    assert_int_equal(checkpoint_reader_write(reader, fixture.towers[1].tower, 0, 1, &problem), 0);
    assert_true(fabsf(first_number(&fixture, 1, "norm.running_mean") - sum / 2) < 1e-6f);
    checkpoint_reader_close(reader);
    fixture_close(&fixture);
}

/* The last float of the first tensor, which is a weight; its hash is made again. */
TEST_WITH(weights_that_are_not_finite_are_refused_by_name, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    char key[sizeof(TENSOR_HASH_KEY) + TENSOR_NAME_BYTES], hash[24];
    uint64_t header_bytes;
    size_t bytes;
    fixture_open(&fixture, false);
    const char *const path = save(&fixture, 5, 1);
    const struct parameter *const first = &fixture.net->parameters[0];
    uint8_t *const whole = fixture_read(path, &bytes);
    memcpy(&header_bytes, whole, sizeof(header_bytes));
    float *const weights = (float *)(void *)(whole + sizeof(header_bytes) + header_bytes);
    weights[first->count - 1] = NAN;
    fixture_write(path, whole, bytes);
    snprintf(key, sizeof(key), TENSOR_HASH_KEY "%s", first->name);
    snprintf(hash, sizeof(hash), "%016" PRIx64, (uint64_t)XXH3_64bits(weights, first->count * sizeof(*weights)));
    forge(path, key, hash);
    assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
    assert_int_equal(checkpoint_reader_write(reader, fixture.towers[0].tower, 0, TOWERS, &problem), -EBADMSG);
    assert_non_null(strstr(problem.text, first->name));
    assert_non_null(strstr(problem.text, "holds a number that is not finite or above 1e18 (nan at index"));
    checkpoint_reader_close(reader);
    free(whole);
    fixture_close(&fixture);
}

/* The folder's newest whole checkpoint is the one at `step`. What is skipped is reported, but not checked here. */
static void assert_found(struct fixture *fixture, uint64_t step, const char *how, size_t at)
{
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    if (checkpoint_reader_find(&reader, run_directory_path(fixture->directory), UINT64_MAX, &problem) != 0)
        fail_msg("%s at byte %zu: nothing was found", how, at);
    if (reader->metadata.position.step != step)
        fail_msg("%s at byte %zu: the damaged state was taken", how, at);
    checkpoint_reader_close(reader);
}

/* From one byte that is damaged to the next: in the long tests every byte is. */
static size_t stride(size_t at)
{
    return at < 64 || test_is_long() ? 1 : 3;
}

/* With an older checkpoint beside it: every bit of some bytes, one of others, and the lengths. */
TEST_WITH(any_damage_falls_back_to_the_state_before, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    struct capture capture;
    char text[TEXT_BYTES];
    size_t count;
    fixture_open(&fixture, false);
    save(&fixture, 4, 2);
    const char *const path = save(&fixture, 5, 2);
    uint8_t *const bytes = fixture_read(path, &count);
    assert_found(&fixture, 5, "no damage", 0);
    capture_begin(&capture);
    for (size_t i = 0; i < count; i += stride(i)) {
        const bool is_whole = i < 8 || i % 37 == 0;
        for (unsigned bit = is_whole ? 0 : i % 8; bit < 8; bit += is_whole ? 1 : 8) {
            bytes[i] ^= (uint8_t)(1u << bit);
            fixture_write(path, bytes, count);
            assert_found(&fixture, 4, "a flipped bit", i);
            bytes[i] ^= (uint8_t)(1u << bit);
        }
    }
    for (size_t i = 0; i < count; i += stride(i)) {
        fixture_write(path, bytes, i);
        assert_found(&fixture, 4, "the end", i);
    }
    capture_end(&capture, text, sizeof(text));
    assert_non_null(strstr(text, ": skipped"));
    free(bytes);
    fixture_close(&fixture);
}

TEST_WITH(the_newest_that_is_whole_is_found, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    struct capture capture;
    char text[TEXT_BYTES];
    fixture_open(&fixture, false);
    const char *const folder_path = run_directory_path(fixture.directory);
    assert_int_equal(checkpoint_reader_find(&reader, folder_path, UINT64_MAX, &problem), -ENOENT);
    assert_int_equal(checkpoint_reader_find(&reader, "/nowhere", UINT64_MAX, &problem), -ENOENT);
    save(&fixture, 9, 3);
    save(&fixture, 10, 3);
    fixture_write(save(&fixture, 100, 3), "x", 1);
    capture_begin(&capture);
    assert_int_equal(checkpoint_reader_find(&reader, folder_path, UINT64_MAX, &problem), 0);
    capture_end(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "checkpoint-00000100.safetensors: is not a safetensors file: skipped"));
    assert_int_equal(reader->metadata.position.step, 10);
    checkpoint_reader_close(reader);
    fixture_close(&fixture);
}

static bool is_there(struct fixture *fixture, uint64_t step)
{
    char path[700], name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(step, name);
    snprintf(path, sizeof(path), "%s/%s", run_directory_path(fixture->directory), name);
    return fixture_exists(path);
}

TEST_WITH(the_newest_up_to_the_last_stay, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    fixture_open(&fixture, false);
    for (uint64_t step = 1; step <= 5; step++)
        save(&fixture, step, 3);
    assert_false(is_there(&fixture, 2));
    assert_true(is_there(&fixture, 3) && is_there(&fixture, 4) && is_there(&fixture, 5));
    save(&fixture, 4, 3);
    assert_true(is_there(&fixture, 3) && is_there(&fixture, 4));
    assert_false(is_there(&fixture, 5));
    fixture_close(&fixture);
}

/* ---- what cannot be saved ---- */

TEST_WITH(a_state_that_is_not_finite_is_not_written, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    const char *broken = NULL;
    const struct checkpoint_metadata metadata = { .position = { 0, 8, 0 }, .files = CHECKPOINT_NEWEST };
    float numbers[64];
    fixture_open(&fixture, false);
    assert_int_equal(tower_read(fixture.towers[0].tower, 0, numbers), 0);
    numbers[1] = INFINITY;
    assert_int_equal(tower_write(fixture.towers[0].tower, 0, numbers), 0);
    take_snapshots(&fixture);
    assert_int_equal(checkpoint_writer_copy(fixture.writer, fixture.snapshots, &metadata), 0);
    assert_int_equal(checkpoint_writer_write(fixture.writer, fixture.directory, 1, &broken), -EDOM);
    assert_string_equal(broken, fixture.net->parameters[0].name);
    assert_false(is_there(&fixture, 8));
    fixture_close(&fixture);
}

/* It is no number of steps, so it is none of the newest, and stays whatever their number is. */
TEST_WITH(the_best_state_is_a_file_of_its_own, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    const char *broken;
    char path[700];
    fixture_open(&fixture, false);
    save(&fixture, 5, 1);
    struct checkpoint_metadata metadata = { .position = { 0, 6, 0 }, .files = CHECKPOINT_BEST };
    take_snapshots(&fixture);
    assert_int_equal(checkpoint_writer_copy(fixture.writer, fixture.snapshots, &metadata), 0);
    assert_int_equal(checkpoint_writer_write(fixture.writer, fixture.directory, 1, &broken), 0);
    assert_true(is_there(&fixture, 5) && !is_there(&fixture, 6));
    metadata = (struct checkpoint_metadata){ .position = { 0, 7, 0 }, .files = CHECKPOINT_BEST | CHECKPOINT_NEWEST };
    assert_int_equal(checkpoint_writer_copy(fixture.writer, fixture.snapshots, &metadata), 0);
    assert_int_equal(checkpoint_writer_write(fixture.writer, fixture.directory, 1, &broken), 0);
    assert_true(is_there(&fixture, 7) && !is_there(&fixture, 5));
    save(&fixture, 8, 1);
    snprintf(path, sizeof(path), "%s/" CHECKPOINT_BEST_FILE, run_directory_path(fixture.directory));
    assert_int_equal(checkpoint_reader_open(&reader, path, &problem), 0);
    assert_int_equal(reader->metadata.position.step, 7);
    checkpoint_reader_close(reader);
    assert_true(is_there(&fixture, 8));
    fixture_close(&fixture);
}

/* From here on the towers' states stay in them. */
static void fixture_stay(struct fixture *fixture)
{
    for (uint32_t d = 0; d < fixture->shape.towers; d++) {
        snapshot_close(fixture->snapshots[d]);
        fixture->snapshots[d] = NULL;
        assert_int_equal(snapshot_open(&fixture->snapshots[d], fixture->towers[d].tower, SNAPSHOT_LAST), 0);
    }
    checkpoint_writer_close(fixture->writer);
    fixture->shape.stays = true;
    fixture_open_writer(fixture, fixture->shape.here, NULL);
}

static void check_stays(bool weights_differ)
{
    struct fixture fixture;
    size_t copied_bytes, bytes;
    const char *broken;
    const struct checkpoint_metadata metadata = { .position = { 3, 12, 2 }, .lines_bytes = { 11, 22 }, .sums = "1 2 3",
                                          .progress = "4 5", .files = CHECKPOINT_NEWEST };
    fixture_open(&fixture, weights_differ);
    const size_t room = checkpoint_writer_bytes(&fixture.shape, "");
    const char *const path = save(&fixture, 12, 2);
    uint8_t *const copied = fixture_read(path, &copied_bytes);
    assert_int_equal(unlink(path), 0);
    fixture_stay(&fixture);
    assert_true(checkpoint_writer_bytes(&fixture.shape, "") < room);
    assert_int_equal(checkpoint_file_bytes(&fixture.shape, ""), room);
    take_snapshots(&fixture);
    assert_int_equal(checkpoint_writer_copy(fixture.writer, fixture.snapshots, &metadata), 0);
    assert_int_equal(checkpoint_writer_prepare(fixture.writer, fixture.directory, &broken), 0);
    assert_false(is_there(&fixture, 12));
    checkpoint_writer_drop(fixture.writer, fixture.directory);
    assert_int_equal(checkpoint_writer_appear(fixture.writer, fixture.directory, 2), -ENOENT);
    assert_int_equal(checkpoint_writer_prepare(fixture.writer, fixture.directory, &broken), 0);
    assert_int_equal(checkpoint_writer_appear(fixture.writer, fixture.directory, 2), 0);
    uint8_t *const stayed = fixture_read(path, &bytes);
    assert_int_equal(bytes, copied_bytes);
    assert_memory_equal(stayed, copied, bytes);
    free(copied);
    free(stayed);
    fixture_close(&fixture);
}

TEST_WITH(a_state_that_stays_in_its_towers_makes_the_same_file, fixture_folder_make, fixture_folder_remove)
{
    check_stays(false);
    check_stays(true);
}

static void count_back(void *arg, uint32_t tower, struct snapshot *snapshot)
{
    struct fixture *const fixture = arg;
    assert_ptr_equal(snapshot, fixture->snapshots[tower]);
}

/* A folder is in the place of the last checkpoint: it is reported, and the others stay. */
TEST_WITH(the_saver_goes_on_when_a_state_cannot_be_written, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    struct checkpoint_saver *saver;
    struct checkpoint_counts counts;
    struct capture capture;
    char text[TEXT_BYTES];
    struct checkpoint_metadata metadata = { .position = { 0, 1, 0 }, .files = CHECKPOINT_NEWEST };
    fixture_open(&fixture, false);
    take_snapshots(&fixture);
    const struct checkpoint_saver_spec spec = { .writer = fixture.writer, .directory = fixture.directory,
                                                .towers = TOWERS, .keep = 9, .give_back = count_back, .arg = &fixture };
    for (uint64_t step = 1; step <= 3; step++) {
        assert_int_equal(checkpoint_saver_start(&saver, &spec), 0);
        metadata.position.step = step;
        checkpoint_saver_put(saver, fixture.snapshots, &metadata);
        checkpoint_saver_end(saver, &counts);
        assert_true(counts.saved == 1 && counts.failures == 0 && counts.latest_ns > 0);
    }
    assert_true(is_there(&fixture, 1) && is_there(&fixture, 2) && is_there(&fixture, 3));
    char path[700];
    snprintf(path, sizeof(path), "%s/checkpoint-00000004.safetensors", run_directory_path(fixture.directory));
    assert_int_equal(mkdir(path, 0777), 0);
    capture_begin(&capture);
    assert_int_equal(checkpoint_saver_start(&saver, &spec), 0);
    metadata.position.step = 4;
    checkpoint_saver_put(saver, fixture.snapshots, &metadata);
    checkpoint_saver_put(saver, fixture.snapshots, &metadata);
    checkpoint_saver_end(saver, &counts);
    assert_true(counts.saved == 0 && counts.failures == 2 && counts.latest_ns == 0);
    capture_end(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "the run continues, and earlier checkpoints stay"));
    assert_true(is_there(&fixture, 3));
    fixture_close(&fixture);
}

/* ---- towers in several processes ---- */

/* What a process has sent and the writer has not taken yet. */
struct sent {
    char bytes[1 << 16];
    size_t put, flushed, taken;
    int error;                  /* of a tensor among them */
};

/* Four towers in processes of `each`, of which number 0 writes. */
struct processes {
    struct fixture fixture;
    uint32_t each;
    struct sent sent[TOWERS_MAX];
};

static int put(void *arg, const void *data, size_t bytes, int error)
{
    struct sent *const sent = arg;
    assert_true(bytes <= sizeof(sent->bytes) - sent->put);
    memcpy(sent->bytes + sent->put, data, bytes);
    sent->put += bytes;
    sent->error = error != 0 ? error : sent->error;
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
    struct processes *const processes = arg;
    struct sent *const sent = &processes->sent[tower / processes->each];
    assert_true(tower >= processes->each && bytes <= sent->flushed - sent->taken);
    memcpy(out, sent->bytes + sent->taken, bytes);
    sent->taken += bytes;
    return sent->error;
}

static struct processes *processes_open(const struct kind *kind, uint32_t each)
{
    struct processes *const processes = calloc(1, sizeof(*processes));
    const struct checkpoint_source source = { take, processes };
    assert_non_null(processes);
    processes->each = each;
    fixture_open_towers(&processes->fixture, TOWERS_MAX, kind);
    take_snapshots(&processes->fixture);
    fixture_open_writer(&processes->fixture, (struct tower_range){ 0, each }, &source);
    return processes;
}

static void processes_close(struct processes *processes)
{
    fixture_close(&processes->fixture);
    free(processes);
}

static void send_all(struct processes *processes)
{
    for (uint32_t rank = 1; rank < TOWERS_MAX / processes->each; rank++) {
        struct sent *const sent = &processes->sent[rank];
        const struct checkpoint_sink sink = { put, flush, sent };
        struct checkpoint_shape shape = processes->fixture.shape;
        struct checkpoint_sender *sender;
        shape.here = (struct tower_range){ rank * processes->each, processes->each };
        assert_int_equal(checkpoint_sender_open(&sender, &shape, &sink), 0);
        assert_int_equal(checkpoint_sender_send(sender, &processes->fixture.snapshots[shape.here.first]), 0);
        assert_int_equal(sent->put, checkpoint_sender_total(&shape));
        assert_int_equal(sent->flushed, sent->put);
        checkpoint_sender_close(sender);
    }
}

/* The file that processes of so many towers write; to be freed. */
static uint8_t *file_of(const struct kind *kind, uint32_t each, size_t *bytes_out)
{
    const struct checkpoint_metadata metadata = { .position = { 3, 12, 2 }, .sums = "1 2 3",
                                                  .files = CHECKPOINT_NEWEST };
    const char *broken;
    char path[700];
    struct processes *const processes = processes_open(kind, each);
    struct fixture *const fixture = &processes->fixture;
    assert_int_equal(checkpoint_has_others(&fixture->shape), !kind->is_same);
    if (!kind->is_same)
        send_all(processes);
    assert_int_equal(checkpoint_writer_copy(fixture->writer, fixture->snapshots, &metadata), 0);
    assert_int_equal(checkpoint_writer_write(fixture->writer, fixture->directory, 1, &broken), 0);
    for (uint32_t rank = 1; rank < TOWERS_MAX / each; rank++)
        assert_int_equal(processes->sent[rank].taken, processes->sent[rank].put);
    snprintf(path, sizeof(path), "%s/checkpoint-00000012.safetensors", run_directory_path(fixture->directory));
    uint8_t *const file = fixture_read(path, bytes_out);
    assert_int_equal(unlink(path), 0);
    processes_close(processes);
    return file;
}

TEST_WITH(the_file_does_not_depend_on_the_processes_that_have_the_towers, fixture_folder_make, fixture_folder_remove)
{
    static const struct kind kinds[] = {
        { .weights_differ = false },
        { .weights_differ = true },
        { .is_same = true },
        { .average_decay = 0.9 },
        { .average_decay = 0.9, .weights_differ = true },
        { .stays = true },
        { .stays = true, .weights_differ = true },
    };
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        size_t whole_bytes, bytes;
        uint8_t *const whole = file_of(&kinds[k], TOWERS_MAX, &whole_bytes);
        for (uint32_t each = 1; each < TOWERS_MAX; each *= 2) {
            uint8_t *const file = file_of(&kinds[k], each, &bytes);
            assert_int_equal(bytes, whole_bytes);
            assert_memory_equal(file, whole, bytes);
            free(file);
        }
        free(whole);
    }
}

/* The writer needs room for towers that are not here, whose memory cannot be the buffer. */
TEST_WITH(towers_of_others_need_room, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    fixture_open_towers(&fixture, TOWERS_MAX, &(struct kind){ .stays = true, .weights_differ = true });
    struct checkpoint_shape shape = fixture.shape;
    const size_t alone = checkpoint_writer_bytes(&shape, "");
    shape.here = (struct tower_range){ 2, 2 };
    const size_t total = checkpoint_sender_total(&shape);
    shape.here = (struct tower_range){ 0, 2 };
    size_t statistics = 0;      /* are copied in any case */
    for (uint32_t i = 0; i < fixture.net->parameter_count; i++)
        statistics += fixture.net->parameters[i].is_trained ? 0 : fixture.net->parameters[i].count * sizeof(float);
    assert_int_equal(checkpoint_writer_bytes(&shape, "") - alone, total - 2 * statistics);
    fixture_close(&fixture);
}

/* A reader would refuse the file, whose header lists the statistics of all towers. */
TEST_WITH(more_tensors_than_a_file_can_list_are_refused, fixture_folder_make, fixture_folder_remove)
{
    struct fixture fixture;
    fixture_open_towers(&fixture, TOWERS_MAX, &(struct kind){ .weights_differ = false });
    struct checkpoint_shape shape = fixture.shape;
    shape.here = (struct tower_range){ 0, TOWERS_MAX };
    shape.towers = CHECKPOINT_TOWERS_MAX;
    assert_int_equal(checkpoint_writer_open(&fixture.writer, &shape, NULL, "", fixture.about), -EFBIG);
    shape.is_same = true;
    assert_int_equal(checkpoint_writer_open(&fixture.writer, &shape, NULL, "", fixture.about), 0);
    fixture_close(&fixture);
}

/* An error of another process arrives with its tensors, all of which are taken: the next checkpoint is whole. */
TEST_WITH(an_error_of_another_process_is_the_writers, fixture_folder_make, fixture_folder_remove)
{
    const struct checkpoint_metadata metadata = { .files = CHECKPOINT_NEWEST };
    struct processes *const processes = processes_open(&(struct kind){ .weights_differ = true }, 2);
    struct fixture *const fixture = &processes->fixture;
    struct sent *const sent = &processes->sent[1];
    send_all(processes);
    sent->error = -EIO;
    assert_int_equal(checkpoint_writer_copy(fixture->writer, fixture->snapshots, &metadata), -EIO);
    assert_int_equal(sent->taken, sent->put);
    *sent = (struct sent){ .put = 0 };
    send_all(processes);
    assert_int_equal(checkpoint_writer_copy(fixture->writer, fixture->snapshots, &metadata), 0);
    processes_close(processes);
}

TESTS_MAIN(NULL, NULL)
