/* Tests of saved weights: the file says what the tower holds, to any reader of safetensors. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <xxhash.h>

#include "compute/netfile/net_file.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/results/tensor_file.h"
#include "tools/lib/results/weights.h"

/* No call of the program (--wrap) gets memory while this is set. */
static bool no_memory;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return no_memory ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_memory ? NULL : __real_calloc(count, bytes);
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    return no_memory ? NULL : __real_realloc(memory, bytes);
}

static const struct pixels_text pixels = {
    .divisor = "127.5", .mean = "1 0.5", .deviation = "0.25", .images = { "cut", "as \"they\" are" },
    .settings = { "central", "1.25", "0", "area" } };

/* A tower of its own with a directory to save to. */
struct fixture {
    struct device *device;
    struct stream *compute;
    struct net *net;
    struct tower *tower;
    struct run_directory *directory;
    struct weights_spec spec;
    struct weights *weights;
};

static struct net *net_make(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "tiny", (struct shape){ 2, 5, 5 }, 3), 0);
    const struct conv2d grouped = { 4, 2, window_square(3, 1, PADDING_VALID), true };
    net_grouped_conv2d(net, "zebra", NET_INPUT, grouped);
    net_batch_norm(net, "mid", 0, (struct batch_norm){ 0.9, 1e-5f, true });
    net_dense(net, "ant", 1, 3, true);
    net_softmax_loss(net, "loss", 2);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static void directory_open(struct fixture *fixture)
{
    struct settings settings;
    struct problems problems;
    char text[600], problem[1024];
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    snprintf(text, sizeof(text), "run.dir=%s/run", folder);
    config_set(&settings, text, &problems);
    config_set(&settings, "input.source=synthetic", &problems);
    assert_int_equal(settings_finish(&settings, &problems), 0);
    assert_int_equal(run_directory_open(&fixture->directory, &settings, NULL, problem, sizeof(problem)), 0);
    settings_release(&settings);
    problems_release(&problems);
}

static int fixture_open(void **state, bool borrows)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    const struct device_ops *ops = &device_host_ops;
    const struct device_spec device = { .name = "cpu0" };
    assert_int_equal(fixture_folder_make(state), 0);
    assert_int_equal(ops->open(&fixture->device, &device), 0);
    assert_int_equal(ops->stream_open(fixture->device, STREAM_COMPUTE, "compute", &fixture->compute), 0);
    fixture->net = net_make();
    const struct tower_spec spec = {
        .net = fixture->net, .device = fixture->device, .compute = fixture->compute,
        .backend = &backend_reference_ops, .backend_spec = { .threads = 1, .local_max = 2 }, .seed = 5,
        .train_counts = { 2, 0 },
    };
    assert_int_equal(tower_open(&fixture->tower, &spec), 0);
    assert_int_equal(tower_allocate(fixture->tower), 0);
    directory_open(fixture);
    assert_int_equal(run_directory_begin(fixture->directory), 0);
    fixture->spec = (struct weights_spec){ .net = fixture->net, .borrows = borrows };
    assert_int_equal(weights_open(&fixture->weights, fixture->spec, &pixels), 0);
    *state = fixture;
    return 0;
}

static int fixture_open_with_room(void **state)
{
    return fixture_open(state, false);
}

static int fixture_open_borrowing(void **state)
{
    return fixture_open(state, true);
}

static int fixture_close(void **state)
{
    struct fixture *fixture = *state;
    const struct device_ops *ops = &device_host_ops;
    weights_close(fixture->weights);
    weights_close(NULL);
    tower_close(fixture->tower);
    net_close(fixture->net);
    ops->stream_close(fixture->compute);
    ops->close(fixture->device);
    run_directory_close(fixture->directory);
    free(fixture);
    return fixture_folder_remove(state);
}

static int save(struct fixture *fixture, const char *file, uint64_t steps, const char **broken_out)
{
    return weights_save(fixture->weights, fixture->directory, file, &fixture->tower, steps, broken_out);
}

static FILE *file_open(const char *name)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/run/%s", folder, name);
    return fopen(path, "rb");
}

/* The header, and where the data begin. */
static json_t *header_read(FILE *file, uint64_t *data_begin_out)
{
    uint8_t length[8];
    uint64_t bytes = 0;
    assert_int_equal(fread(length, 1, sizeof(length), file), sizeof(length));
    for (int i = 7; i >= 0; i--)
        bytes = bytes << 8 | length[i];
    assert_in_range(bytes, 2, 100000);
    char *text = malloc(bytes);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, bytes, file), bytes);
    json_t *header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    assert_non_null(header);
    *data_begin_out = sizeof(length) + bytes;
    return header;
}

static void check_shape(const json_t *entry, const struct parameter *parameter)
{
    const json_t *shape = json_object_get(entry, "shape");
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), "F32");
    assert_int_equal(json_array_size(shape), parameter->rank);
    for (uint32_t axis = 0; axis < parameter->rank; axis++)
        assert_int_equal(json_integer_value(json_array_get(shape, axis)), parameter->dims[axis]);
}

static void check_data(FILE *file, uint64_t data_begin, const json_t *header, const json_t *entry,
                       struct tower *tower, const struct parameter *parameter, uint32_t index)
{
    float stored[512], held[512];
    char key[128], hash[32];
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const uint64_t begin = (uint64_t)json_integer_value(json_array_get(offsets, 0));
    const uint64_t end = (uint64_t)json_integer_value(json_array_get(offsets, 1));
    assert_in_range(parameter->count, 1, 512);
    assert_int_equal(end - begin, parameter->count * sizeof(float));
    assert_int_equal(fseek(file, (long)(data_begin + begin), SEEK_SET), 0);
    assert_int_equal(fread(stored, sizeof(float), parameter->count, file), parameter->count);
    assert_int_equal(tower_read(tower, index, held), 0);
    assert_memory_equal(stored, held, parameter->count * sizeof(float));
    snprintf(key, sizeof(key), "pipetrain.xxh3.%s", parameter->name);
    snprintf(hash, sizeof(hash), "%016" PRIx64, (uint64_t)XXH3_64bits(held, parameter->count * sizeof(float)));
    const json_t *texts = json_object_get(header, "__metadata__");
    assert_string_equal(json_string_value(json_object_get(texts, key)), hash);
}

static const struct { const char *key, *value; } metadata[] = {
    { "format", "pt" },
    { "pipetrain.model", "tiny" },
    { "pipetrain.steps", "77" },
    { "pipetrain.input", "(pixel / divisor - mean) / deviation" },
    { "pipetrain.input.divisor", "127.5" },
    { "pipetrain.input.mean", "1 0.5" },
    { "pipetrain.input.deviation", "0.25" },
    { "pipetrain.images.train", "cut" },
    { "pipetrain.images.validation", "as \"they\" are" },
    { "pipetrain.setting.augment.evaluation", "central" },
    { "pipetrain.setting.augment.evaluation_scale", "1.25" },
    { "pipetrain.setting.augment.evaluation_resize", "0" },
    { "pipetrain.setting.augment.filter", "area" },
};

TEST(the_file_holds_the_weights_of_the_tower)
{
    struct fixture *fixture = *state;
    const struct net *net = fixture->net;
    const char *broken = NULL;
    uint64_t data_begin;
    assert_int_equal(save(fixture, "w.safetensors", 77, &broken), 0);
    assert_null(broken);
    FILE *file = file_open("w.safetensors");
    assert_non_null(file);
    json_t *header = header_read(file, &data_begin);
    assert_int_equal(json_object_size(header), net->parameter_count + 1);
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const json_t *entry = json_object_get(header, net->parameters[i].name);
        assert_non_null(entry);
        check_shape(entry, &net->parameters[i]);
        check_data(file, data_begin, header, entry, fixture->tower, &net->parameters[i], i);
    }
    for (size_t i = 0; i < sizeof(metadata) / sizeof(*metadata); i++)
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(header, "__metadata__"), metadata[i].key)),
            metadata[i].value);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal((uint64_t)ftell(file), data_begin + (net->trainable_count + net->statistic_count) * sizeof(float));
    json_decref(header);
    fclose(file);
}

static void tell_nobody(void *arg, uint32_t line, const char *problem)
{
    (void)arg, (void)line, (void)problem;
}

/* The metadata of a file that is saved now; to be released. */
static json_t *save_metadata(struct fixture *fixture)
{
    const char *broken = NULL;
    uint64_t data_begin;
    assert_int_equal(save(fixture, "w.safetensors", 1, &broken), 0);
    FILE *file = file_open("w.safetensors");
    json_t *header = header_read(file, &data_begin), *texts = json_object_get(header, "__metadata__");
    json_incref(texts);
    json_decref(header);
    fclose(file);
    return texts;
}

TEST(the_network_can_be_made_of_the_metadata)
{
    struct fixture *fixture = *state;
    const struct model_options options = { .dropout = true };
    const struct net_file_sink sink = { tell_nobody, NULL };
    json_t *texts = save_metadata(fixture);
    const char *text = json_string_value(json_object_get(texts, WEIGHTS_NET));
    struct net *net;
    assert_non_null(text);
    assert_int_equal(net_file_read(&net, text, strlen(text), &options, &sink), 0);
    assert_int_equal(net->parameter_count, fixture->net->parameter_count);
    for (uint32_t i = 0; i < net->parameter_count; i++)
        assert_string_equal(net->parameters[i].name, fixture->net->parameters[i].name);
    assert_int_equal(net->classes, fixture->net->classes);
    net_close(net);
    json_decref(texts);
}

TEST(names_of_classes_are_kept_unless_they_are_too_long)
{
    struct fixture *fixture = *state;
    static const char names[] = "0:a \"cat\"\n2:dog\n";
    assert_int_equal(weights_name_classes(fixture->weights, strdup(names)), 0);
    json_t *texts = save_metadata(fixture);
    assert_string_equal(json_string_value(json_object_get(texts, WEIGHTS_CLASS_NAMES)), names);
    json_decref(texts);
    struct weights *other;
    char *const much = calloc(1, 3 * WEIGHTS_CLASS_BYTES + 1);
    assert_non_null(much);
    memset(much, 'x', 3 * WEIGHTS_CLASS_BYTES);
    assert_int_equal(weights_open(&other, fixture->spec, &pixels), 0);
    assert_int_equal(weights_name_classes(other, much), 0);
    weights_close(fixture->weights);
    fixture->weights = other;
    texts = save_metadata(fixture);
    assert_null(json_object_get(texts, WEIGHTS_CLASS_NAMES));
    json_decref(texts);
}

TEST(tensors_lie_in_the_order_of_their_names_without_gaps)
{
    struct fixture *fixture = *state;
    static const char *const names[] = { "ant.bias", "ant.weight", "mid.bias", "mid.running_mean",
                                        "mid.running_var", "mid.weight", "zebra.bias", "zebra.weight" };
    const char *broken = NULL;
    uint64_t data_begin, end = 0;
    assert_int_equal(save(fixture, "w.safetensors", 1, &broken), 0);
    FILE *file = file_open("w.safetensors");
    json_t *header = header_read(file, &data_begin);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *offsets = json_object_get(json_object_get(header, names[i]), "data_offsets");
        assert_int_equal(json_integer_value(json_array_get(offsets, 0)), end);
        end = (uint64_t)json_integer_value(json_array_get(offsets, 1));
    }
    assert_int_equal(data_begin % 8, 0);
    json_decref(header);
    fclose(file);
}

TEST(weights_that_are_not_finite_are_not_saved)
{
    struct fixture *fixture = *state;
    const struct net *net = fixture->net;
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        float good[512], changed[512];
        const size_t count = net->parameters[i].count;
        assert_int_equal(tower_read(fixture->tower, i, good), 0);
        memcpy(changed, good, sizeof(changed));
        changed[count - 1] = bad[i % 3];
        assert_int_equal(tower_write(fixture->tower, i, changed), 0);
        const char *broken = NULL;
        assert_int_equal(save(fixture, "bad.safetensors", 1, &broken), -EDOM);
        assert_string_equal(broken, net->parameters[i].name);
        assert_null(file_open("bad.safetensors"));
        assert_int_equal(tower_write(fixture->tower, i, good), 0);
    }
}

/* After days of training, memory may be short. */
TEST(saving_takes_no_memory)
{
    struct fixture *fixture = *state;
    static const uint64_t steps[] = { 0, 12345, UINT64_MAX };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const char *broken = NULL;
        uint64_t data_begin;
        char text[32];
        no_memory = true;
        const int rc = save(fixture, "w.safetensors", steps[i], &broken);
        no_memory = false;
        assert_int_equal(rc, 0);
        FILE *file = file_open("w.safetensors");
        json_t *header = header_read(file, &data_begin);
        snprintf(text, sizeof(text), "%" PRIu64, steps[i]);
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(header, "__metadata__"), "pipetrain.steps")), text);
        assert_int_equal(fseek(file, 0, SEEK_END), 0);
        assert_in_range(ftell(file), 1, weights_file_bytes(fixture->net));
        json_decref(header);
        fclose(file);
    }
}

/* On a device of the host's memory a run keeps no copy of its weights to save them. */
TEST(what_is_trained_takes_no_memory_where_it_is_borrowed)
{
    struct fixture *fixture = *state;
    const struct net *net = fixture->net;
    const size_t with = weights_bytes((struct weights_spec){ .net = net, .borrows = false });
    const size_t borrowed = weights_bytes((struct weights_spec){ .net = net, .borrows = true });
    assert_true(net->trainable_count > 0 && net->statistic_count > 0);
    assert_int_equal(with - borrowed, net->trainable_count * sizeof(float));
    assert_int_equal(weights_file_bytes(net), with);
}

/* The plain forms are made in the memory of the snapshot where gradients are borrowed, else in one of their own. */
TEST(the_weights_of_an_evaluation_say_which_one)
{
    struct fixture *fixture = *state;
    struct checkpoint_metadata best = { .position = { 2, 77, 0 }, .progress = "3 4 77", .best_by = "macro_f1",
                                        .best_value = 0.75 };
    const struct { const char *key, *value; } texts_of_best[] = {
        { "format", "pt" }, { "pipetrain.steps", "77" }, { "pipetrain.epoch", "2" }, { "pipetrain.best_by", "macro_f1" },
        { "pipetrain.best_value", "0.75" }, { "pipetrain.settings", "run.seed = 1\n" }, { "pipetrain.position", "2 77 0" },
        { "pipetrain.course", "3 4 77" }, { "pipetrain.model", "tiny" },
    };
    for (int borrows = 0; borrows < 2; borrows++) {
        struct weights_spec spec = fixture->spec;
        struct weights *weights;
        struct snapshot *snapshot;
        const char *broken = NULL;
        uint64_t data_begin;
        spec.borrows = borrows;
        spec.best_settings = "run.seed = 1\n";
        assert_int_equal(weights_open(&weights, spec, &pixels), 0);
        assert_int_equal(snapshot_open(&snapshot, fixture->tower, SNAPSHOT_EVALUATED), 0);
        assert_int_equal(snapshot_queue(snapshot), 0);
        no_memory = true;
        const int rc = weights_save_best(weights, fixture->directory, &snapshot, &best, &broken);
        no_memory = false;
        assert_int_equal(rc, 0);
        FILE *file = file_open("best.safetensors");
        json_t *header = header_read(file, &data_begin);
        assert_int_equal(json_object_size(header), fixture->net->parameter_count + 1);
        for (uint32_t i = 0; i < fixture->net->parameter_count; i++)
            check_data(file, data_begin, header, json_object_get(header, fixture->net->parameters[i].name),
                       fixture->tower, &fixture->net->parameters[i], i);
        for (size_t i = 0; i < sizeof(texts_of_best) / sizeof(*texts_of_best); i++)
            assert_string_equal(json_string_value(json_object_get(json_object_get(header, "__metadata__"),
                                                                  texts_of_best[i].key)), texts_of_best[i].value);
        json_decref(header);
        fclose(file);
        /* The same memory saves the last weights. */
        assert_int_equal(weights_save(weights, fixture->directory, "w.safetensors", &fixture->tower, 80, &broken), 0);
        snapshot_close(snapshot);
        weights_close(weights);
    }
}

TEST(weights_of_an_evaluation_that_are_not_finite_are_not_saved)
{
    struct fixture *fixture = *state;
    const struct checkpoint_metadata best = { .position = { 1, 7, 0 }, .best_by = "accuracy" };
    struct weights_spec spec = fixture->spec;
    struct weights *weights;
    struct snapshot *snapshot;
    const char *broken = NULL;
    float numbers[512];
    spec.best_settings = "";
    assert_int_equal(weights_open(&weights, spec, &pixels), 0);
    assert_int_equal(tower_read(fixture->tower, 1, numbers), 0);
    const float was = numbers[0];
    numbers[0] = NAN;
    unlinkat(run_directory_fd(fixture->directory), "best.safetensors", 0);
    assert_int_equal(tower_write(fixture->tower, 1, numbers), 0);
    assert_int_equal(snapshot_open(&snapshot, fixture->tower, SNAPSHOT_EVALUATED), 0);
    assert_int_equal(snapshot_queue(snapshot), 0);
    assert_int_equal(weights_save_best(weights, fixture->directory, &snapshot, &best, &broken), -EDOM);
    assert_string_equal(broken, fixture->net->parameters[1].name);
    assert_null(file_open("best.safetensors"));
    numbers[0] = was;
    assert_int_equal(tower_write(fixture->tower, 1, numbers), 0);
    snapshot_close(snapshot);
    weights_close(weights);
}

TEST(opening_without_memory_fails)
{
    struct fixture *fixture = *state;
    struct weights *weights = NULL;
    no_memory = true;
    const int rc = weights_open(&weights, fixture->spec, &pixels);
    no_memory = false;
    assert_int_equal(rc, -ENOMEM);
    assert_null(weights);
}

TEST(a_shape_is_the_same_but_for_dimensions_that_a_dense_layer_flattens)
{
    static const struct { uint32_t rank; uint64_t dims[5]; bool is_same; } rows[] = {
        { 2, { 10, 20 }, true }, { 2, { 20, 10 }, false }, { 2, { 10, 21 }, false }, { 1, { 10 }, false },
        { 1, { 200 }, false }, { 3, { 10, 20, 1 }, true }, { 4, { 10, 5, 2, 2 }, true }, { 3, { 20, 10, 1 }, false },
        { 4, { 10, 20, 3, 3 }, false },
    };
    const struct parameter parameter = { .rank = 2, .dims = { 10, 20 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct safetensors_tensor tensor = { .dtype = "F32", .rank = rows[i].rank };
        memcpy(tensor.dims, rows[i].dims, sizeof(rows[i].dims));
        assert_int_equal(tensor_has_shape(&tensor, &parameter), rows[i].is_same);
    }
}

int main(void)
{
    alarm(60);
    const int failed = tests_run(fixture_open_with_room, fixture_close);
    return failed + tests_run(fixture_open_borrowing, fixture_close);
}
