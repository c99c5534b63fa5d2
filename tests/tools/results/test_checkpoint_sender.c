/* Tests of checkpoints whose towers are in several processes: the file is that of one process with all of them. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/snapshot.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/tools/run_directory_fixture.h"
#include "tools/lib/results/checkpoint_sender.h"
#include "tools/lib/results/checkpoint_writer.h"

enum { TOWERS = 4 };

static const struct optimizer momentum = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };
static const struct pixels_text pixels = { .divisor = "255", .mean = "0", .deviation = "1" };

/* What a process has sent and the writer has not taken yet. */
struct sent {
    char bytes[1 << 16];
    size_t put, flushed, taken;
    int error;                  /* of a tensor among them */
};

/* A run's towers, each of other numbers, and its directory. */
struct fixture {
    struct net *net;
    struct tower_fixture stands[TOWERS];
    struct snapshot *snapshots[TOWERS];
    struct run_directory *directory;
    struct checkpoint_shape shape;      /* of one process with all towers */
    struct weights_about *about;
    uint32_t each;              /* towers of a process */
    struct sent sent[TOWERS];      /* of each process; 0 is the one that writes */
};

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

static void open_tower(struct fixture *fixture, uint32_t d, double average_decay, enum snapshot_kind kind)
{
    struct tower_fixture *const stand = &fixture->stands[d];
    tower_fixture_open_device(stand, "reference");
    struct tower_spec spec = tower_fixture_spec(stand, "reference", fixture->net);
    spec.optimizer = momentum;
    spec.seed = 7 + d;
    spec.average_decay = average_decay;
    tower_fixture_open_tower(stand, &spec);
    struct backend_input input = network_input(fixture->net, FIXTURE_BATCH, 100 + d);
    tower_fixture_fill(stand, fixture->net, &input, 0, FIXTURE_BATCH);
    tower_fixture_train(stand);
    tower_fixture_update(stand);
    assert_int_equal(tower_update_average(stand->tower, 1), 0);
    network_input_release(&input);
    assert_int_equal(snapshot_open(&fixture->snapshots[d], stand->tower, kind), 0);
}

struct kind { bool weights_differ, is_same, stays; double average_decay; };

static void fixture_open(struct fixture *fixture, const struct kind *kind)
{
    char path[600];
    *fixture = (struct fixture){ .net = net_make() };
    for (uint32_t d = 0; d < TOWERS; d++)
        open_tower(fixture, d, kind->average_decay, kind->stays ? SNAPSHOT_LAST : SNAPSHOT_STATE);
    snprintf(path, sizeof(path), "%s/run", folder);
    fixture->directory = run_fixture_begin("test", path);
    fixture->shape = (struct checkpoint_shape){ .net = fixture->net, .towers = TOWERS, .states = 1,
                                                .averages = kind->average_decay > 0, .stays = kind->stays,
                                                .is_same = kind->is_same, .weights_differ = kind->weights_differ };
    assert_int_equal(weights_about_open(&fixture->about, fixture->net, &pixels), 0);
}

static void fixture_close(struct fixture *fixture)
{
    weights_about_close(fixture->about);
    run_directory_close(fixture->directory);
    for (uint32_t d = 0; d < TOWERS; d++) {
        snapshot_close(fixture->snapshots[d]);
        tower_fixture_close(&fixture->stands[d]);
    }
    net_close(fixture->net);
}

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
    struct fixture *const fixture = arg;
    struct sent *const sent = &fixture->sent[tower / fixture->each];
    assert_true(tower >= fixture->each && bytes <= sent->flushed - sent->taken);
    memcpy(out, sent->bytes + sent->taken, bytes);
    sent->taken += bytes;
    return sent->error;
}

static void send_all(struct fixture *fixture)
{
    for (uint32_t rank = 1; rank < TOWERS / fixture->each; rank++) {
        struct sent *const sent = &fixture->sent[rank];
        const struct checkpoint_sink sink = { put, flush, sent };
        struct checkpoint_shape shape = fixture->shape;
        struct checkpoint_sender *sender;
        shape.here = (struct tower_range){ rank * fixture->each, fixture->each };
        assert_int_equal(checkpoint_sender_open(&sender, &shape, &sink), 0);
        assert_int_equal(checkpoint_sender_send(sender, &fixture->snapshots[shape.here.first]), 0);
        assert_int_equal(sent->put, checkpoint_sender_total(&shape));
        assert_int_equal(sent->flushed, sent->put);
        checkpoint_sender_close(sender);
    }
}

static void make_snapshots(struct fixture *fixture)
{
    for (uint32_t d = 0; d < TOWERS; d++) {
        assert_int_equal(snapshot_queue(fixture->snapshots[d]), 0);
        assert_int_equal(event_wait(snapshot_end(fixture->snapshots[d])), 0);
    }
}

static struct checkpoint_writer *open_writer(struct fixture *fixture)
{
    const struct checkpoint_source source = { take, fixture };
    struct checkpoint_shape shape = fixture->shape;
    struct checkpoint_writer *writer;
    shape.here = (struct tower_range){ 0, fixture->each };
    assert_int_equal(checkpoint_writer_open(&writer, &shape, &source, "a = 1\n", fixture->about), 0);
    return writer;
}

/* The file that processes of so many towers write; to be freed. */
static uint8_t *file_of(const struct kind *kind, uint32_t each, size_t *bytes_out)
{
    const struct checkpoint_metadata metadata = { .position = { 3, 12, 2 }, .sums = "1 2 3",
                                                  .files = CHECKPOINT_NEWEST };
    struct fixture *const fixture = malloc(sizeof(*fixture));
    const char *broken;
    char path[700];
    assert_non_null(fixture);
    fixture_open(fixture, kind);
    fixture->each = each;
    make_snapshots(fixture);
    assert_int_equal(checkpoint_has_others(&fixture->shape), !kind->is_same);
    struct checkpoint_writer *const writer = open_writer(fixture);
    if (!kind->is_same)
        send_all(fixture);
    assert_int_equal(checkpoint_writer_copy(writer, fixture->snapshots, &metadata), 0);
    assert_int_equal(checkpoint_writer_write(writer, fixture->directory, 1, &broken), 0);
    for (uint32_t rank = 1; rank < TOWERS / each; rank++)
        assert_int_equal(fixture->sent[rank].taken, fixture->sent[rank].put);
    snprintf(path, sizeof(path), "%s/checkpoint-00000012.safetensors", run_directory_path(fixture->directory));
    uint8_t *const file = fixture_read(path, bytes_out);
    assert_int_equal(unlink(path), 0);
    checkpoint_writer_close(writer);
    fixture_close(fixture);
    free(fixture);
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
        uint8_t *const whole = file_of(&kinds[k], TOWERS, &whole_bytes);
        for (uint32_t each = 1; each < TOWERS; each *= 2) {
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
    struct fixture *const fixture = malloc(sizeof(*fixture));
    assert_non_null(fixture);
    fixture_open(fixture, &(struct kind){ .stays = true, .weights_differ = true });
    struct checkpoint_shape shape = fixture->shape;
    const size_t alone = checkpoint_writer_bytes(&shape, "");
    shape.here = (struct tower_range){ 2, 2 };
    const size_t total = checkpoint_sender_total(&shape);
    shape.here = (struct tower_range){ 0, 2 };
    size_t statistics = 0;      /* are copied in any case */
    for (uint32_t i = 0; i < fixture->net->parameter_count; i++)
        statistics += fixture->net->parameters[i].is_trained ? 0 : fixture->net->parameters[i].count * sizeof(float);
    assert_int_equal(checkpoint_writer_bytes(&shape, "") - alone, total - 2 * statistics);
    fixture_close(fixture);
    free(fixture);
}

/* An error of another process arrives with its tensors, all of which are taken, so that the next checkpoint is whole. */
TEST_WITH(an_error_of_another_process_is_the_writers, fixture_folder_make, fixture_folder_remove)
{
    const struct checkpoint_metadata metadata = { .files = CHECKPOINT_NEWEST };
    struct fixture *const fixture = malloc(sizeof(*fixture));
    assert_non_null(fixture);
    fixture_open(fixture, &(struct kind){ .weights_differ = true });
    fixture->each = 2;
    make_snapshots(fixture);
    struct checkpoint_writer *const writer = open_writer(fixture);
    send_all(fixture);
    fixture->sent[1].error = -EIO;
    assert_int_equal(checkpoint_writer_copy(writer, fixture->snapshots, &metadata), -EIO);
    assert_int_equal(fixture->sent[1].taken, fixture->sent[1].put);
    fixture->sent[1] = (struct sent){ .put = 0 };
    send_all(fixture);
    assert_int_equal(checkpoint_writer_copy(writer, fixture->snapshots, &metadata), 0);
    checkpoint_writer_close(writer);
    fixture_close(fixture);
    free(fixture);
}

TESTS_MAIN(NULL, NULL)
