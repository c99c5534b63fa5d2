/* What a run of many ranks costs each of them, as formulas of their number R: messages, bytes and requests (of
 * tests/helpers/fake_mpi.h), memory, and files that are opened. The ranks are in this process, each with its threads,
 * and on hosts of their own. A change of an algorithm shows here, such as from messages between all ranks to a tree. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/dataset_start.h"
#include "loader/index_share.h"
#include "stage/clock.h"
#include "stage/stop.h"
#include "sync/ranks/rank_tree.h"
#include "sync/reduce.h"
#include "tests/helpers/fake_mpi.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tools/lib/run/about.h"
#include "tools/lib/run/ranks/core_share.h"
#include "tools/lib/run/ranks/rank_waits.h"
#include "tools/lib/run/ranks/remote_towers.h"
#include "tools/lib/run/ranks/shutdown.h"

/* Every rank sums a part of PART numbers of each bucket, which is sent as one message. */
enum { BUCKETS = 2, PART = 128, STACK_BYTES = 1 << 20, DEADLINE_S = 300, SLOW_US = 8000 };

/* ---- what the ranks ask of the system ---- */

/* Allocated by the ranks, all together; what they free is not subtracted. */
static atomic_size_t allocated;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    atomic_fetch_add(&allocated, count * bytes);
    return __real_calloc(count, bytes);
}

void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    atomic_fetch_add(&allocated, bytes);
    return __real_aligned_alloc(align, bytes);
}

/* Every call gives another name, so that no two ranks share memory. A rank asks twice while it opens: it is on the host
 * "node" with its number. */
static atomic_uint hosts;

int __wrap_gethostname(char *name, size_t bytes);
int __wrap_gethostname(char *name, size_t bytes)
{
    const uint32_t call = atomic_fetch_add(&hosts, 1);
    snprintf(name, bytes, call % 2 == 0 ? "node%u" : "node%u-", call / 2);
    return 0;
}

static atomic_uint opens;

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
    atomic_fetch_add(&opens, 1);
    return __real_open(path, flags, mode);
}

/* ---- a run ---- */

/* A rank with one tower. */
struct member {
    uint32_t rank;
    struct thread *thread;
    struct device *device;
    struct stream *compute, *communication;
    struct event *end;
    struct reduce *reduce;
    struct schedule schedule;
    struct gate *gate;
    struct remote_towers *remote;
    float *gradients;
    struct rank_waits *waits;           /* of rank 0 */
    uint64_t waited_ns;                 /* for the sums of the latest step */
    uint64_t begun_ns, ended_ns;        /* the latest step */
    uint32_t wrong;                     /* sums */
    int result;
};

static uint32_t size, steps;            /* size: R */
static uint32_t report_every = 1;       /* up to 3: as many reports fit into an envelope */
static uint32_t deadline_s = DEADLINE_S;
static uint32_t slow_rank = UINT32_MAX; /* comes SLOW_US later to the sums of each step */
static struct ranks *ranks[FAKE_RANKS_MAX];
static struct member members[FAKE_RANKS_MAX];
static struct buckets buckets;

static size_t floats_of_bucket(void)
{
    return (size_t)PART * size;
}

/* Whole numbers, whose sums are exact in any order. */
static float gradient_at(uint32_t rank, uint32_t step, size_t at)
{
    return (float)((rank + step) % 8 + at % 4);
}

static uint32_t count_wrong(const struct member *member, uint32_t step)
{
    float at_0 = 0;
    uint32_t wrong = 0;
    for (uint32_t rank = 0; rank < size; rank++)
        at_0 += gradient_at(rank, step, 0);
    for (size_t i = 0; i < BUCKETS * floats_of_bucket(); i++)
        wrong += member->gradients[i] != at_0 + (float)(size * (i % 4));
    return wrong;
}

static int sum_step(struct member *member, uint32_t step)
{
    int rc = 0;
    member->begun_ns = clock_now_ns();
    for (size_t i = 0; i < BUCKETS * floats_of_bucket(); i++)
        member->gradients[i] = gradient_at(member->rank, step, i);
    if (member->rank == slow_rank)
        usleep(SLOW_US);
    const uint64_t begun_ns = clock_now_ns();
    for (uint32_t b = 0; b < BUCKETS && rc == 0; b++)
        rc = member->reduce->ops->start(member->reduce, member->rank, b, step);
    for (uint32_t b = 0; b < BUCKETS && rc == 0; b++)
        rc = member->reduce->ops->wait(member->reduce, member->rank, b);
    if (rc == 0)
        rc = stream_record(member->compute, member->end);
    if (rc == 0)
        rc = event_wait(member->end);
    member->ended_ns = clock_now_ns();
    member->waited_ns = member->ended_ns - begun_ns;
    return rc;
}

/* Report the step to rank 0, which waits for the reports of all. */
static int report_step(struct member *member, uint32_t step)
{
    struct step_report own = { .times = { .exposed_reduction = member->waited_ns,
                                          .total = member->ended_ns - member->begun_ns } };
    struct step_report *reports[FAKE_RANKS_MAX] = { &own };
    assert_int_equal(schedule_find(&member->schedule, step, member->rank, &own.local), 0);
    if (member->rank > 0)
        return remote_towers_send(member->remote, reports);
    const int rc = remote_towers_receive(member->remote, step, reports);
    if (rc == 0)
        rank_waits_add(member->waits, reports);
    return rc;
}

/* Main of rank 0 is behind its tower by a group. */
static int report_group(struct member *member, uint32_t step)
{
    const bool is_due = (step + 1) % report_every == 0 || step + 1 == steps;
    int rc = 0;
    if (member->rank > 0)
        return report_step(member, step);
    for (uint32_t first = step - step % report_every; is_due && first <= step && rc == 0; first++)
        rc = report_step(member, first);
    return rc;
}

static int run_steps(struct member *member)
{
    const struct reduce_region region = { member->gradients, BUCKETS * floats_of_bucket() };
    const struct reduce_member joining = { .device = member->device, .compute = member->compute,
                                           .communication = member->communication, .zeros = region,
                                           .regions = { [REGION_GRADIENTS] = region } };
    int rc = member->reduce->ops->join(member->reduce, member->rank, &joining, &buckets);
    for (uint32_t step = 0; step < steps && rc == 0; step++) {
        rc = sum_step(member, step);
        member->wrong += rc == 0 ? count_wrong(member, step) : 0;
        if (rc == 0)
            rc = report_group(member, step);
    }
    if (member->reduce->ops->leave != NULL)
        member->reduce->ops->leave(member->reduce, member->rank);
    return rc;
}

static void member_open(struct member *member, uint32_t rank)
{
    const struct device_ops *const ops = &device_host_ops;
    const struct device_spec device = { .name = "device" };
    void *memory;
    *member = (struct member){ .rank = rank };
    assert_int_equal(ops->open(&member->device, &device), 0);
    assert_int_equal(ops->stream_open(member->device, STREAM_COMPUTE, "compute", &member->compute), 0);
    assert_int_equal(ops->stream_open(member->device, STREAM_COMMUNICATION, "reduce", &member->communication), 0);
    assert_int_equal(ops->event_open(member->device, EVENT_ORDER, &member->end), 0);
    assert_int_equal(ops->alloc(member->device, BUCKETS * floats_of_bucket() * sizeof(float), &memory), 0);
    member->gradients = memory;
    const struct reduce_spec reduce = { .towers = size, .here = { rank, 1 }, .ranks = ranks[rank] };
    assert_int_equal(reduce_ranks_ops.open(&member->reduce, &reduce), 0);
    member->schedule = (struct schedule){ .records = { (uint64_t)size * steps }, .batch = size, .towers = size,
                                          .epochs = 1, .here = { rank, 1 } };
    assert_int_equal(gate_open(&member->gate), 0);
    const struct remote_towers_spec remote = { .ranks = ranks[rank], .schedule = &member->schedule,
                                               .gate = member->gate, .report_every = report_every };
    assert_int_equal(remote_towers_open(&member->remote, &remote), 0);
    remote_towers_go(member->remote);
    if (rank == 0)
        assert_int_equal(rank_waits_open(&member->waits, &member->schedule, NULL), 0);
}

static void member_close(struct member *member)
{
    const struct device_ops *const ops = &device_host_ops;
    rank_waits_close(member->waits);
    remote_towers_close(member->remote);
    gate_close(member->gate);
    ops->stream_close(member->communication);
    member->reduce->ops->close(member->reduce);
    ops->stream_close(member->compute);
    ops->event_close(member->end);
    ops->free(member->device, member->gradients);
    ops->close(member->device);
}

static void run_member(void *arg)
{
    struct member *const member = arg;
    struct run_back back = { .folder = "" };
    member->result = run_steps(member);
    if (member->result == 0)
        member->result = shutdown_agree(ranks[member->rank], 0, false, &back);
}

static void start(uint32_t count, uint32_t step_count)
{
    size = count;
    steps = step_count;
    atomic_store(&hosts, 0);
    atomic_store(&allocated, 0);
    fake_mpi_reset(size, 1, 1);
    fake_ranks_open(ranks, size, deadline_s);
}

static void run(void)
{
    buckets = (struct buckets){ .count = BUCKETS };
    for (uint32_t b = 0; b < BUCKETS; b++)
        buckets.bucket[b] = (struct bucket){ .region = REGION_GRADIENTS, .offset = b * floats_of_bucket(),
                                             .count = floats_of_bucket() };
    for (uint32_t rank = 0; rank < size; rank++)
        member_open(&members[rank], rank);
    for (uint32_t rank = 0; rank < size; rank++)
        assert_int_equal(thread_start(&members[rank].thread, "main", run_member, &members[rank]), 0);
    for (uint32_t rank = 0; rank < size; rank++)
        thread_join(members[rank].thread);
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_int_equal(members[rank].result, 0);
        assert_int_equal(members[rank].wrong, 0);
    }
}

static void end(void)
{
    for (uint32_t rank = 0; rank < size; rank++)
        member_close(&members[rank]);
    fake_ranks_close(ranks, size);
}

/* ---- counts ---- */

/* All ranks are on hosts of their own: up to 17 are a star, more a heap in which each has up to 16 children. */
static uint32_t children_of(uint32_t rank)
{
    const uint32_t first = RANK_TREE_CHILDREN * rank + 1;
    if (size <= RANK_TREE_CHILDREN + 1)
        return rank == 0 ? size - 1 : 0;
    return first >= size ? 0 : size - first < RANK_TREE_CHILDREN ? size - first : RANK_TREE_CHILDREN;
}

/* Ranks in the subtree of that one, itself included. */
static uint32_t subtree_of(uint32_t rank)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < children_of(rank); i++)
        count += subtree_of(RANK_TREE_CHILDREN * rank + 1 + i);
    return count;
}

/* To connect, the name of each rank's host goes to rank 0 from one rank to the next, and the names of all come back, with
 * 4 bytes for each rank. Ranks of other hosts exchange nothing. */
static void check_start(void)
{
    enum { NAME_BYTES = 68, HEAD_BYTES = 4, HOST_BYTES = 64 };
    uint64_t messages = 0;
    assert_int_equal(about_host_count(ranks[0]), size);
    for (uint32_t rank = 0; rank < size; rank++) {
        const struct fake_counts counts = fake_mpi_counts(rank);
        const uint64_t up = rank > 0 ? subtree_of(rank) : 0, down = children_of(rank);
        messages += up + down;
        assert_int_equal(counts.sent[FAKE_WAKEUPS].messages, up + down);
        assert_int_equal(counts.sent[FAKE_WAKEUPS].bytes,
                         up * NAME_BYTES + down * (HEAD_BYTES + size * (4 + HOST_BYTES)));
        assert_int_equal(counts.sent[FAKE_MAIL].messages, 0);
        assert_int_equal(counts.sent[FAKE_JOBS].messages, 0);
    }
    const uint64_t others = size - 1, levels = size <= 17 ? 1 : size <= 273 ? 2 : 3;
    assert_in_range(messages, 2 * others, (levels + 1) * others);
}

/* Of a bucket a rank sends (R - 1) / R in each of two rounds, to each other rank the same. */
static void check_sums(void)
{
    const uint64_t sums = (uint64_t)steps * BUCKETS, others = size - 1;
    for (uint32_t rank = 0; rank < size; rank++) {
        const struct fake_counts counts = fake_mpi_counts(rank);
        const struct fake_count *const sent = &counts.sent[FAKE_JOBS], *const received = &counts.received[FAKE_JOBS];
        assert_int_equal(sent->messages, sums * 2 * others);
        assert_int_equal(received->messages, sent->messages);
        assert_int_equal(received->bytes, sent->bytes);
        assert_int_equal(sent->bytes, sums * 2 * others * PART * sizeof(float));
    }
}

/* Children that have children: what they send of a step is longer than an envelope, so that it is two messages,
 * and with many ranks below also what they send at the end. */
static uint32_t leaders_below(uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < children_of(rank) && size > RANK_TREE_CHILDREN + 1; i++)
        count += children_of(RANK_TREE_CHILDREN * rank + 1 + i) > 0;
    return count;
}

/* Each rank mails one message for report_every steps and one at the end to its parent, whatever the number of ranks below
 * it; rank 0 allows batches, and says how the run ends, by two messages to each of its children, which pass them on. */
static void check_mail(void)
{
    const uint64_t groups = (steps + report_every - 1) / report_every;
    for (uint32_t rank = 0; rank < size; rank++) {
        const uint64_t children = children_of(rank), up = rank > 0 ? groups + 1 : 0;
        const uint64_t is_long = rank > 0 && children > 0;
        const struct fake_counts counts = fake_mpi_counts(rank);
        const uint64_t from_above = rank > 0 ? 2 : 0, from_below = children * (groups + 1) + leaders_below(rank) * groups;
        assert_in_range(counts.received[FAKE_MAIL].messages, from_below + from_above,
                        from_below + leaders_below(rank) + (rank > 0 ? steps + 3 : 0));
        assert_in_range(counts.sent[FAKE_MAIL].messages, up + is_long * groups + children * 2,
                        up + is_long * (groups + 1) + children * (steps + 3));
    }
}

/* Requests: receives and sends of each bucket, at most FLIGHT of each, and the mail with neighbours in the tree; or before
 * that the names of the hosts of all ranks below. */
static void check_requests(void)
{
    enum { FLIGHT = 16 };
    const uint64_t others = size - 1, flight = others < FLIGHT ? others : FLIGHT;
    for (uint32_t rank = 0; rank < size; rank++) {
        const uint64_t peers = children_of(rank) + (rank > 0), names = rank > 0 ? subtree_of(rank) : 0;
        assert_in_range(fake_mpi_counts(rank).requests_most, 2 * flight,
                        (names > BUCKETS * 2 * flight ? names : BUCKETS * 2 * flight) + 4 * peers + 4);
    }
}

static void check_run(uint32_t count, uint32_t step_count)
{
    start(count, step_count);
    check_start();
    run();
    check_sums();
    check_mail();
    check_requests();
    end();
}

TEST(messages_bytes_and_requests_of_a_rank_are_as_computed)
{
    check_run(2, 3);
    check_run(5, 3);
    check_run(17, 3);
    check_run(test_is_sanitized() ? 20 : 64, 2);
    if (test_is_long())
        check_run(FAKE_RANKS_MAX, 1);
}

static void share_cores(void *arg)
{
    struct member *const member = arg;
    struct settings settings = { .core_ranks = 0 };
    member->result = core_share_agree(ranks[member->rank], &settings);
    member->wrong = settings.core_ranks != 1 || settings.core_rank != 0;
}

/* Up, the descriptions of the ranks below a rank are one message, down, the shares of all. What is longer than an envelope
 * is sent as two. */
TEST(shares_of_all_ranks_are_one_message_to_each)
{
    start(40, 1);
    for (uint32_t rank = 0; rank < size; rank++) {
        members[rank] = (struct member){ .rank = rank };
        assert_int_equal(thread_start(&members[rank].thread, "main", share_cores, &members[rank]), 0);
    }
    for (uint32_t rank = 0; rank < size; rank++)
        thread_join(members[rank].thread);
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_int_equal(members[rank].result, 0);
        assert_int_equal(members[rank].wrong, 0);
        const uint64_t up = rank == 0 ? 0 : children_of(rank) > 0 ? 2 : 1;
        assert_int_equal(ranks_flush(ranks[rank]), 0);
        assert_in_range(fake_mpi_counts(rank).sent[FAKE_MAIL].messages, up + children_of(rank), up + 2 * children_of(rank));
    }
    fake_ranks_close(ranks, size);
}

TEST(reports_of_several_steps_are_one_message)
{
    report_every = 3;
    check_run(5, 3);
    check_run(5, 7);
    check_run(20, 4);
    report_every = 1;
}

/* What a rank allocates, beside the memory that it shares with others, for each other rank: its part of the other's
 * terms, and less than OF_ANOTHER bytes. */
TEST(memory_of_a_rank_grows_little_with_the_number_of_ranks)
{
    enum { FEW = 8, MANY = 64, OF_ANOTHER = 700 };
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        start(i == 0 ? FEW : MANY, 1);
        run();
        bytes[i] = atomic_load(&allocated) / size - BUCKETS * floats_of_bucket() * sizeof(float);
        end();
    }
    print_message("a rank allocates %zu bytes with %d ranks, %zu with %d\n", bytes[0], FEW, bytes[1], MANY);
    assert_in_range(bytes[1], bytes[0], bytes[0] + (MANY - FEW) * OF_ANOTHER);
}

/* ---- ranks that do not reach each other ---- */

/* Both reach rank 0, which gets heartbeats of all, and waits for them. */
static void sum_parted(void)
{
    deadline_s = 2;
    start(4, 1);
    fake_mpi_part(1, 2);
    run();
    _exit(0);
}

TEST(two_ranks_that_cannot_reach_each_other_end_the_run_in_a_sum)
{
    char said[1024] = "";
    FILE *const file = tmpfile();
    int status;
    assert_non_null(file);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(file), STDERR_FILENO);
        sum_parted();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_CODE_STALL);
    rewind(file);
    assert_true(fread(said, 1, sizeof(said) - 1, file) > 0);
    assert_non_null(strstr(said, "nothing received from rank 2 for 2 s (sync.deadline) in a sum that all ranks have begun: "
                                 "do the two use the same network?\n"));
    assert_null(strstr(said, "rank 3"));
    fclose(file);
}

/* ---- the rank for which the others wait ---- */

/* A busy machine may need some tries. */
TEST(a_rank_that_is_late_at_the_sums_is_found)
{
    enum { RANKS = 12, LATE = 7, TRIES = 5, STEP_MS = 10 };
    bool is_found = false;
    slow_rank = LATE;
    for (int try = 0; try < TRIES && !is_found; try++) {
        start(RANKS, LAST_STEPS);
        run();
        const struct last_rank last = rank_waits_find(members[0].waits);
        assert_int_equal(last.steps, LAST_STEPS);
        is_found = last.rank == LATE && last.behind_ms > SLOW_US / 2e3 && last.behind_ms < 4 * SLOW_US / 1e3 &&
                   last_rank_is_slow(&last, STEP_MS);
        end();
    }
    assert_true(is_found);
    slow_rank = UINT32_MAX;
}

/* ---- files ---- */

/* Rank 0 opens the set and packs what it has found. Returns the files that it opened. */
static uint32_t open_first(const struct dataset_options *options, uint8_t **image_out, size_t *bytes_out)
{
    struct dataset_options keeping = *options;
    keeping.keeps_start = true;
    atomic_store(&opens, 0);
    struct dataset *const dataset = fixture_open(&keeping);
    assert_int_equal(dataset_start_pack(dataset, image_out, bytes_out), 0);
    dataset_close(dataset);
    return atomic_load(&opens);
}

/* Another rank opens it with what it was sent. */
static uint32_t open_given(const struct dataset_options *options, const uint8_t *image, size_t bytes)
{
    struct dataset_options given = *options;
    struct dataset_start start;
    assert_int_equal(dataset_start_parse(&start, image, bytes), 0);
    given.given = &start;
    atomic_store(&opens, 0);
    dataset_close(fixture_open(&given));
    dataset_start_release(&start);
    return atomic_load(&opens);
}

/* Before the first step rank 0 opens every shard and its index file, which ranks had built in turn: a shard is read, no
 * index file found beside it or in the cache, and one written. The others open no shard. */
TEST(files_that_are_opened_before_the_first_step_are_as_computed)
{
    enum { FILES = 2, BUILDING = 4, OTHERS = 8 };
    const uint32_t count = 64, shards = test_is_long() ? 1024 : 128;
    struct dataset_options options = fixture_options("train-*");
    static const atomic_bool is_unwanted;
    uint8_t *image;
    size_t bytes;
    options.use_index_cache = true;
    assert_int_equal(fixture_folder_enter(NULL), 0);
    fixture_write_set(".", shards, 3 * shards);
    atomic_store(&opens, 0);
    for (uint32_t rank = 0; rank < count; rank++)
        index_share_build("train-*", "train", &(struct index_share){ .first = rank, .step = count,
                                                                     .is_unwanted = &is_unwanted });
    const uint32_t building = atomic_load(&opens), first = open_first(&options, &image, &bytes);
    uint32_t others = 0;
    for (uint32_t rank = 1; rank < count; rank++)
        others += open_given(&options, image, bytes);
    print_message("building %u, rank 0 %u, others %u opens\n", building, first, others);
    assert_in_range(building, shards, BUILDING * shards + OTHERS * count);
    assert_in_range(first, shards, FILES * shards + OTHERS);
    assert_at_most(others, OTHERS * (count - 1));
    free(image);
    assert_int_equal(fixture_folder_leave(NULL), 0);
}

/* Stacks are small: a run of 512 ranks has more than two thousand threads. */
static int shrink_stacks(void **state)
{
    pthread_attr_t attributes;
    (void)state;
    return pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0 ||
           pthread_setattr_default_np(&attributes) != 0;
}

TESTS_MAIN(shrink_stacks, NULL)
