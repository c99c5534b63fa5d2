/* Tests of ranks that are all in this process (tests/helpers/fake_mpi.h): messages, failures and silence. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/clock.h"
#include "sync/ranks/rank_memory.h"
#include "sync/ranks/rank_tree.h"
#include "sync/ranks/ranks.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/fake_mpi.h"
#include "tests/helpers/test.h"

enum { SIZE = 3, WAITS_MAX = 100000 };  /* of 0.1 ms each */
enum { TURNS_MAX = 10000 };             /* of 1 ms each */

static struct ranks *ranks[FAKE_RANKS_MAX];
static struct stop *stops[FAKE_RANKS_MAX];
static struct capture capture;
static char captured[16384];

/* How many of the ranks that next open a wakeup_flag, or the memory of sums, can share it. */
static atomic_int sharing;

/* How many can share the wakeup that open_ranks opens. */
static int wakeup = FAKE_RANKS_MAX;

/* As with vm.memfd_noexec = 1: files cannot be executed, and a seal says so. */
static atomic_bool are_never_executed;
#define NOEXEC_SEAL 8u          /* MFD_NOEXEC_SEAL of Linux 6.3 */

int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (atomic_fetch_sub(&sharing, 1) <= 0)
        return -1;
    const int file = atomic_load(&are_never_executed) ? __real_memfd_create(name, flags | NOEXEC_SEAL) : -1;
    return file >= 0 ? file : __real_memfd_create(name, flags);
}

/* Every call gives another name: no two ranks are on one host. */
static atomic_bool are_apart;
static atomic_int hosts;

int __wrap_gethostname(char *name, size_t bytes);
int __real_gethostname(char *name, size_t bytes);
int __wrap_gethostname(char *name, size_t bytes)
{
    if (!atomic_load(&are_apart))
        return __real_gethostname(name, bytes);
    snprintf(name, bytes, "host%d", atomic_fetch_add(&hosts, 1));
    return 0;
}

/* A process that has something else under the numbers of our descriptors; 0: there is none. */
static atomic_int impostor;

pid_t __wrap_getpid(void);
pid_t __real_getpid(void);
pid_t __wrap_getpid(void)
{
    const pid_t other = atomic_load(&impostor);
    return other != 0 ? other : __real_getpid();
}

/* How often something was unmapped that is nowhere. */
static atomic_int unmapped_nothing;

int __wrap_munmap(void *address, size_t bytes);
int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes)
{
    atomic_fetch_add(&unmapped_nothing, address == NULL);
    return __real_munmap(address, bytes);
}

/* A thread that abandons jobs says when it waits for the communication thread. */
static _Thread_local bool is_abandoning;
static sem_t abandoning, advancing;

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
    if (is_abandoning)
        sem_post(&abandoning);
    return __real_pthread_cond_wait(condition, lock);
}

static void open_ranks(uint32_t size, uint32_t tests, uint32_t deadline_s)
{
    atomic_store(&sharing, wakeup);
    fake_mpi_reset(size, tests, 1);
    fake_ranks_open(ranks, size, deadline_s);
}

static void set_stops(void)
{
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        assert_int_equal(stop_open(&stops[rank]), 0);
        assert_int_equal(ranks_set_stop(ranks[rank], stops[rank]), 0);
    }
}

/* Ranks that have failed cannot be closed: their threads stay until the process ends, as in a run. */
static void remove_stops(void)
{
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        assert_int_equal(ranks_set_stop(ranks[rank], NULL), 0);
        stop_close(stops[rank]);
    }
}

static void await_failure(uint32_t rank)
{
    for (int waits = 0; waits < WAITS_MAX && !stop_failed(stops[rank]); waits++)
        usleep(100);
    assert_true(stop_failed(stops[rank]));
}

/* ---- who there is ---- */

TEST(a_process_without_a_launcher_is_rank_0_of_1)
{
    assert_int_equal(ranks_rank(NULL), 0);
    assert_int_equal(ranks_size(NULL), 1);
    assert_int_equal(ranks_local_size(NULL), 1);
    assert_false(ranks_failed(NULL));
    ranks_set_step(NULL, 1);
    ranks_close(NULL);
}

TEST(ranks_know_each_other_and_the_library)
{
    open_ranks(SIZE, 3, 60);
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        assert_int_equal(ranks_rank(ranks[rank]), rank);
        assert_int_equal(ranks_size(ranks[rank]), SIZE);
        assert_string_equal(ranks_library(ranks[rank]), "fake MPI 1.0");
    }
    char host[64];
    assert_int_equal(gethostname(host, sizeof(host)), 0);
    assert_non_null(strstr(ranks_name(ranks[0], 2), "rank 2 ("));
    assert_non_null(strstr(ranks_name(ranks[0], 2), host));
    assert_non_null(strstr(ranks_name(ranks[1], 0), "rank 0 ("));
    fake_ranks_close(ranks, SIZE);
}

/* ---- shared memory ---- */

static bool two_ranks_share(void)
{
    open_ranks(2, 1, 60);
    const bool share = ranks_can_wake(ranks[0], 1);
    assert_true(ranks_can_wake(ranks[1], 0) == share);
    fake_ranks_close(ranks, 2);
    return share;
}

TEST(ranks_share_memory_on_one_host_only)
{
    assert_true(two_ranks_share());
    atomic_store(&are_apart, true);
    assert_false(two_ranks_share());
    atomic_store(&are_apart, false);
}

TEST(memory_is_shared_where_the_kernel_adds_a_seal)
{
    atomic_store(&are_never_executed, true);
    assert_true(two_ranks_share());
    atomic_store(&are_never_executed, false);
}

/* As the memory of a wakeup_flag with its token. */
enum { FLAG_BYTES = 48, DESCRIPTORS = 64 };

static int sealed_file(int seals)
{
    const int file = __real_memfd_create("test", MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(file, FLAG_BYTES), 0);
    assert_int_equal(fcntl(file, F_ADD_SEALS, seals), 0);
    return file;
}

static int named_file(void)
{
    char name[] = "/tmp/pipetrain-ranks.XXXXXX";
    const int file = mkstemp(name);
    assert_int_equal(ftruncate(file, FLAG_BYTES), 0);
    assert_int_equal(unlink(name), 0);
    return file;
}

static void start_impostor(int file)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t process = fork();
    if (process == 0) {
        const int end = fcntl(ready[1], F_DUPFD, DESCRIPTORS);
        for (int number = 3; number < DESCRIPTORS; number++)
            if (number != file)
                (void)dup2(file, number);
        (void)!write(end, "r", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    atomic_store(&impostor, process);
}

static void end_impostor(void)
{
    const pid_t process = atomic_exchange(&impostor, 0);
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(waitpid(process, NULL, 0), process);
}

TEST(ranks_map_nothing_but_the_memory_of_a_rank)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const int files[] = { pipes[0], open("/dev/zero", O_RDWR), open("/", O_RDONLY), named_file(), sealed_file(F_SEAL_SHRINK),
                          sealed_file(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), socket(AF_UNIX, SOCK_STREAM, 0) };
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        start_impostor(files[i]);
        if (two_ranks_share())
            fail_msg("case %zu", i);
        end_impostor();
        close(files[i]);
    }
    close(pipes[1]);
}

/* Links a rank's memory, in its communication thread. */
struct connecting {
    struct ranks_job job;
    struct rank_memory *memory;
    atomic_int rc;
};

static int advance_connecting(struct ranks_job *job)
{
    struct connecting *const connecting = (struct connecting *)(void *)job;
    const int rc = rank_memory_connect(connecting->memory, RANKS_TAG_FREE, NULL);
    job->is_polled = rc == 0;
    atomic_store(&connecting->rc, rc);
    return rc;
}

/* `is_hidden`: no other rank finds the memory of this one. */
static void open_memory(struct connecting connectings[2], const bool is_hidden[2])
{
    enum { BYTES = 100, NO_PROCESS = INT32_MAX };
    open_ranks(2, 3, 60);
    atomic_store(&sharing, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        connectings[rank] = (struct connecting){ .job = { .advance = advance_connecting } };
        atomic_store(&impostor, is_hidden[rank] ? NO_PROCESS : 0);
        assert_int_equal(rank_memory_open(&connectings[rank].memory, ranks[rank], BYTES), 0);
    }
    atomic_store(&impostor, 0);
    for (uint32_t rank = 0; rank < 2; rank++)
        ranks_submit(ranks[rank], &connectings[rank].job);
    for (uint32_t rank = 0; rank < 2; rank++)
        for (int waits = 0; waits < WAITS_MAX && atomic_load(&connectings[rank].rc) == 0; waits++)
            usleep(100);
}

TEST(two_ranks_have_each_others_memory_or_neither_has)
{
    static const bool cases[][2] = { { false, false }, { false, true }, { true, false }, { true, true } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const bool is_shared = !cases[i][0] && !cases[i][1];
        struct connecting connectings[2];
        open_memory(connectings, cases[i]);
        for (uint32_t rank = 0; rank < 2; rank++) {
            uint32_t *const own = rank_memory_of(connectings[rank].memory, rank);
            const uint32_t *const seen = rank_memory_of(connectings[1 - rank].memory, rank);
            assert_int_equal(atomic_load(&connectings[rank].rc), 1);
            *own = 7 + rank;
            assert_true((seen != NULL) == is_shared);
            assert_true(seen == NULL || *seen == 7 + rank);
        }
        for (uint32_t rank = 0; rank < 2; rank++)
            rank_memory_close(connectings[rank].memory, false);
        fake_ranks_close(ranks, 2);
    }
    assert_int_equal(atomic_load(&unmapped_nothing), 0);
}

/* ---- wakeup ---- */

static int compare_times(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* How long a message to a rank that has slept for a while takes, the median of some. */
static uint64_t time_message(void)
{
    enum { MESSAGES = 15, PAUSE_US = 20000 };
    uint64_t took_ns[MESSAGES];
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct message *message;
        usleep(PAUSE_US);
        const uint64_t begun_ns = clock_now_ns();
        assert_int_equal(ranks_send(ranks[0], 1, MESSAGE_COLLECTIVE, &i, sizeof(i)), 0);
        assert_int_equal(ranks_receive(ranks[1], 0, MESSAGE_COLLECTIVE, &message), 0);
        took_ns[i] = clock_now_ns() - begun_ns;
        free(message);
    }
    qsort(took_ns, MESSAGES, sizeof(took_ns[0]), compare_times);
    return took_ns[MESSAGES / 2];
}

/* Without wakeup it would take half of a nap, which is a fifth of the pause. A busy machine may need some tries. */
TEST(a_message_wakes_a_rank_that_shares_memory)
{
    enum { TRIES = 20, WANTED_NS = 500000 };
    bool is_fast = false;
    open_ranks(SIZE, 0, 60);
    for (int try = 0; try < TRIES && !is_fast; try++)
        is_fast = time_message() < WANTED_NS;
    assert_true(is_fast);
    fake_ranks_close(ranks, SIZE);
}

/* ---- message ---- */

static unsigned char byte_of(size_t number, size_t at)
{
    return (unsigned char)(number * 37 + at * 11 + (at >> 8));
}

static void send_numbered(struct ranks *from, uint32_t to, enum message_kind kind, size_t number, size_t bytes)
{
    unsigned char *const data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(number, i);
    assert_int_equal(ranks_send(from, to, kind, data, bytes), 0);
    free(data);
}

static void receive_numbered(struct ranks *at, uint32_t from, enum message_kind kind, size_t number, size_t bytes)
{
    struct message *message;
    assert_int_equal(ranks_receive(at, from, kind, &message), 0);
    assert_int_equal(message->from, from);
    assert_int_equal(message->kind, kind);
    assert_int_equal(message->bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(message->data[i], byte_of(number, i));
    free(message);
}

/* Around the size from which data is a message of its own. */
static const size_t message_sizes[] = { 0, 1, 495, 496, 497, 100000, 7, 496, 3000 };
enum { MESSAGE_SIZES = sizeof(message_sizes) / sizeof(message_sizes[0]) };

static void check_messages(void)
{
    open_ranks(SIZE, 5, 60);
    for (size_t i = 0; i < MESSAGE_SIZES; i++)
        for (uint32_t rank = 1; rank < SIZE; rank++) {
            send_numbered(ranks[rank], 0, i % 2 ? MESSAGE_REPORT : MESSAGE_CHECKPOINT, i, message_sizes[i]);
            send_numbered(ranks[0], rank, MESSAGE_COLLECTIVE, i, message_sizes[i]);
        }
    for (uint32_t rank = 1; rank < SIZE; rank++) {
        for (size_t i = 1; i < MESSAGE_SIZES; i += 2)
            receive_numbered(ranks[0], rank, MESSAGE_REPORT, i, message_sizes[i]);
        for (size_t i = 0; i < MESSAGE_SIZES; i += 2)
            receive_numbered(ranks[0], rank, MESSAGE_CHECKPOINT, i, message_sizes[i]);
        for (size_t i = 0; i < MESSAGE_SIZES; i++)
            receive_numbered(ranks[rank], 0, MESSAGE_COLLECTIVE, i, message_sizes[i]);
        assert_null(ranks_try_receive(ranks[rank], 0, MESSAGE_COLLECTIVE));
    }
    assert_int_equal(ranks_flush(ranks[0]), 0);
    fake_ranks_close(ranks, SIZE);
}

TEST(messages_of_one_kind_arrive_in_order_whatever_their_size)
{
    for (wakeup = 0; wakeup <= SIZE; wakeup++)
        check_messages();
    wakeup = FAKE_RANKS_MAX;
}

static atomic_uint handled;

static void handle(void *arg, const struct message *message)
{
    uint64_t number;
    assert_int_equal(message->bytes, sizeof(number));
    memcpy(&number, message->data, sizeof(number));
    assert_int_equal(number, *(const uint64_t *)arg);
    assert_int_equal(message->kind, MESSAGE_LIMIT);
    atomic_fetch_add(&handled, 1);
}

TEST(a_handler_gets_messages_at_once_and_none_after_it_was_removed)
{
    uint64_t number = 12345;
    open_ranks(SIZE, 2, 60);
    for (uint32_t rank = 1; rank < SIZE; rank++)
        ranks_set_handler(ranks[rank], handle, &number);
    assert_int_equal(ranks_send_all(ranks[0], MESSAGE_LIMIT, &number, sizeof(number)), 0);
    for (int waits = 0; waits < WAITS_MAX && atomic_load(&handled) < SIZE - 1; waits++)
        usleep(100);
    assert_int_equal(atomic_load(&handled), SIZE - 1);
    for (uint32_t rank = 1; rank < SIZE; rank++)
        ranks_set_handler(ranks[rank], NULL, NULL);
    assert_int_equal(ranks_send_all(ranks[0], MESSAGE_LIMIT, &number, sizeof(number)), 0);
    assert_int_equal(ranks_send_all(ranks[0], MESSAGE_COLLECTIVE, &number, sizeof(number)), 0);
    for (uint32_t rank = 1; rank < SIZE; rank++) {
        struct message *message;
        assert_int_equal(ranks_receive(ranks[rank], 0, MESSAGE_COLLECTIVE, &message), 0);
        free(message);
    }
    assert_int_equal(atomic_load(&handled), SIZE - 1);
    fake_ranks_close(ranks, SIZE);
}

/* ---- the tree of many ranks ---- */

/* Names of hosts "h0", "h1", ... of ranks, by a rule. */
static const char **hosts_of(uint32_t count, uint32_t each, bool is_cyclic)
{
    const char **const names = calloc(count, sizeof(*names));
    char(*const texts)[12] = calloc(count, sizeof(*texts));
    const uint32_t hosts_all = (count + each - 1) / each;
    assert_true(names != NULL && texts != NULL);
    for (uint32_t rank = 0; rank < count; rank++) {
        snprintf(texts[rank], sizeof(texts[rank]), "h%u", is_cyclic ? rank % hosts_all : rank / each);
        names[rank] = texts[rank];
    }
    return names;
}

/* Every rank has few children, few steps lead to rank 0, and only the lowest rank of a host has a parent elsewhere. */
static void check_tree(uint32_t count, uint32_t each, bool is_cyclic, uint32_t depth_most)
{
    const char **const names = hosts_of(count, each, is_cyclic);
    uint32_t *const parents = calloc(count, sizeof(*parents)), *const children = calloc(count, sizeof(*children));
    uint32_t leaving = 0;
    assert_int_equal(rank_tree_find(names, count, parents), 0);
    assert_int_equal(parents[0], 0);
    for (uint32_t rank = 1; rank < count; rank++) {
        uint32_t depth = 0, last = rank;
        leaving += strcmp(names[rank], names[parents[rank]]) != 0;
        children[parents[rank]]++;
        for (uint32_t at = rank; at != 0; at = parents[at], depth++)
            last = at;
        assert_in_range(depth, 1, depth_most);
        assert_int_equal(rank_tree_child(parents, 0, rank), last);
        assert_int_equal(rank_tree_child(parents, rank, 0), UINT32_MAX);
    }
    assert_int_equal(leaving, (count + each - 1) / each - 1);
    for (uint32_t rank = 0; rank < count; rank++)
        assert_true(children[rank] <= 2 * RANK_TREE_CHILDREN);
    free((void *)(uintptr_t)names[0]);
    free(names);
    free(parents);
    free(children);
}

TEST(the_tree_has_few_children_and_few_levels)
{
    check_tree(18, 1, false, 2);
    check_tree(64, 8, false, 2);
    check_tree(64, 8, true, 2);
    check_tree(512, 8, false, 3);
    check_tree(512, 512, false, 3);
    check_tree(1000, 7, true, 3);
    check_tree(65536, 1, false, 4);
    check_tree(65536, 8, false, 5);
}

enum { MANY = 40, DEEP = 35, DEEPS_PARENT = 2 };

static void exchange_by_tree(void)
{
    open_ranks(MANY, 3, 60);
    for (size_t i = 0; i < MESSAGE_SIZES; i++)
        for (uint32_t rank = 1; rank < MANY; rank++) {
            send_numbered(ranks[rank], 0, i % 2 ? MESSAGE_REPORT : MESSAGE_DAMAGE, i + rank, message_sizes[i] + rank);
            send_numbered(ranks[0], rank, MESSAGE_CHECKPOINT, i + rank, message_sizes[i] + rank);
        }
    send_numbered(ranks[MANY - 1], 0, MESSAGE_COLLECTIVE, 1, 5);        /* it waits for those of the others */
    for (uint32_t rank = 1; rank < MANY; rank++)
        for (size_t i = 0; i < MESSAGE_SIZES; i++) {
            receive_numbered(ranks[0], rank, i % 2 ? MESSAGE_REPORT : MESSAGE_DAMAGE, i + rank, message_sizes[i] + rank);
            receive_numbered(ranks[rank], 0, MESSAGE_CHECKPOINT, i + rank, message_sizes[i] + rank);
        }
    assert_null(ranks_try_receive(ranks[0], MANY - 1, MESSAGE_COLLECTIVE));
    for (uint32_t rank = 1; rank < MANY - 1; rank++)
        send_numbered(ranks[rank], 0, MESSAGE_COLLECTIVE, 1, 5);
    for (uint32_t rank = 1; rank < MANY; rank++)
        receive_numbered(ranks[0], rank, MESSAGE_COLLECTIVE, 1, 5);
    for (size_t i = 0; i < MESSAGE_SIZES; i++) {
        const size_t bytes = message_sizes[i];
        unsigned char *const data = malloc(bytes + 1);
        for (size_t at = 0; at < bytes; at++)
            data[at] = byte_of(i, at);
        assert_int_equal(ranks_send_all(ranks[0], MESSAGE_DECISION, data, bytes), 0);
        free(data);
    }
    for (uint32_t rank = 1; rank < MANY; rank++)
        for (size_t i = 0; i < MESSAGE_SIZES; i++)
            receive_numbered(ranks[rank], 0, MESSAGE_DECISION, i, message_sizes[i]);
    fake_ranks_close(ranks, MANY);
}

TEST(messages_of_many_ranks_arrive_by_the_tree)
{
    exchange_by_tree();
    atomic_store(&are_apart, true);
    exchange_by_tree();
    atomic_store(&are_apart, false);
}

static bool do_all_know(uint64_t sums)
{
    uint32_t rank = 0;
    while (rank < MANY && ranks_sums(ranks[rank]) == sums)
        rank++;
    return rank == MANY;
}

/* The number of sums that all have started comes to all, by the way of the heartbeats; a new phase sends them at
 * once. */
TEST(the_sums_of_many_ranks_are_known_to_all)
{
    static const char *const phases[] = { "planning", "training" };
    open_ranks(MANY, 1, 60);
    for (uint32_t rank = 0; rank < MANY; rank++)
        ranks_set_sums(ranks[rank], rank == DEEP ? 7 : 100 + rank);
    for (int turns = 0; turns < TURNS_MAX && !do_all_know(7); turns++) {
        for (uint32_t rank = 0; rank < MANY; rank++)
            ranks_set_phase(ranks[rank], phases[turns % 2]);
        usleep(1000);
    }
    assert_true(do_all_know(7));
    fake_ranks_close(ranks, MANY);
}

/* ---- failures ---- */

/* These run in processes of their own, which the watch ends a little later. */
static void fall_silent(void)
{
    open_ranks(SIZE, 2, 2);
    set_stops();
    ranks_set_phase(ranks[2], "training");
    ranks_set_step(ranks[2], 41);
    ranks_set_bucket(ranks[2], 3);
    usleep(2500000);
    assert_false(ranks_failed(ranks[0]));
    capture_begin(&capture);
    fake_mpi_cut(2);
    await_failure(0);
    await_failure(1);
    await_failure(2);
    capture_end(&capture, captured, sizeof(captured));
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_int_equal(stop_code(stops[rank]), EXIT_CODE_STALL);
    assert_non_null(strstr(stop_message(stops[0]), "rank 2 ("));
    assert_non_null(strstr(stop_message(stops[0]), "has been silent for 2 s (sync.deadline)"));
    assert_non_null(strstr(stop_message(stops[0]), "training, step 41, in the sum of bucket 3"));
    assert_non_null(strstr(stop_message(stops[1]), "rank 2 ("));
    assert_non_null(strstr(stop_message(stops[2]), "rank 0 ("));
    struct message *message;
    assert_int_equal(ranks_receive(ranks[0], 2, MESSAGE_COLLECTIVE, &message), -ECANCELED);
    remove_stops();
    _exit(0);
}

static void set_many_stops(void)
{
    for (uint32_t rank = 0; rank < MANY; rank++) {
        assert_int_equal(stop_open(&stops[rank]), 0);
        assert_int_equal(ranks_set_stop(ranks[rank], stops[rank]), 0);
    }
}

static void open_many(uint32_t deadline_s)
{
    open_ranks(MANY, 1, deadline_s);
    set_many_stops();
    capture_begin(&capture);
}

/* Its parent finds that it is silent, and tells all. */
static void fall_silent_in_the_tree(void)
{
    struct message *message;
    open_many(3);
    send_numbered(ranks[DEEP - 1], 0, MESSAGE_COLLECTIVE, 1, 5);
    fake_mpi_cut(DEEP);
    for (uint32_t rank = 0; rank < MANY; rank++)
        await_failure(rank);
    capture_end(&capture, captured, sizeof(captured));
    for (uint32_t rank = 0; rank < MANY; rank++)
        assert_int_equal(stop_code(stops[rank]), EXIT_CODE_STALL);
    assert_non_null(strstr(stop_message(stops[0]), "rank 2 ("));
    assert_non_null(strstr(stop_message(stops[0]), "): rank 35 ("));
    assert_non_null(strstr(stop_message(stops[0]), "has been silent for 3 s"));
    assert_non_null(strstr(stop_message(stops[20]), "rank 35 ("));
    assert_int_equal(ranks_receive(ranks[0], DEEP, MESSAGE_COLLECTIVE, &message), -ECANCELED);
    receive_numbered(ranks[0], DEEP - 1, MESSAGE_COLLECTIVE, 1, 5);     /* does not wait for the others any more */
    _exit(0);
}

/* Those below it hear of nobody any more, and say so; rank 0 does not wait for them. */
static void silence_a_parent(void)
{
    struct message *message;
    open_many(3);
    fake_mpi_cut(DEEPS_PARENT);
    for (uint32_t rank = 0; rank < MANY; rank++)
        await_failure(rank);
    capture_end(&capture, captured, sizeof(captured));
    for (uint32_t rank = 0; rank < MANY; rank++)
        assert_int_equal(stop_code(stops[rank]), EXIT_CODE_STALL);
    assert_non_null(strstr(stop_message(stops[0]), "rank 2 ("));
    assert_non_null(strstr(stop_message(stops[0]), "has been silent for 3 s"));
    assert_non_null(strstr(stop_message(stops[DEEP]), "rank 2 ("));
    assert_int_equal(ranks_receive(ranks[0], DEEP, MESSAGE_COLLECTIVE, &message), -ECANCELED);
    _exit(0);
}

static void fail_in_the_tree(void)
{
    open_many(60);
    stop_fail(stops[DEEP], EXIT_CODE_DATA, "bad record");
    for (uint32_t rank = 0; rank < MANY; rank++)
        await_failure(rank);
    capture_end(&capture, captured, sizeof(captured));
    for (uint32_t rank = 0; rank < MANY; rank++)
        assert_int_equal(stop_code(stops[rank]), rank == DEEP ? EXIT_CODE_DATA : EXIT_CODE_RANK);
    assert_non_null(strstr(stop_message(stops[0]), "rank 35 ("));
    assert_non_null(strstr(stop_message(stops[0]), "): bad record"));
    assert_non_null(strstr(stop_message(stops[20]), "): bad record"));
    _exit(0);
}

static void start_in_vain(void)
{
    int codes[SIZE];
    capture_begin(&capture);
    fake_ranks_try_open(ranks, SIZE, 1, codes);
    capture_end(&capture, captured, sizeof(captured));
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_true(codes[rank] == EXIT_CODE_STALL || codes[rank] == EXIT_CODE_RANK);
}

/* Neither hears of the other, and both of rank 0. One says why. */
static void start_parted(void)
{
    fake_mpi_reset(SIZE, 2, 1);
    fake_mpi_part(1, 2);
    start_in_vain();
    assert_string_equal(captured, "pipetrain: nothing received from rank 2 for 1 s (sync.deadline): do the two use the same "
                                  "network?\n");
    _exit(0);
}

/* Nobody hears of it, and it of nobody. */
static void start_without_one(void)
{
    fake_mpi_reset(SIZE, 2, 1);
    fake_mpi_cut(2);
    start_in_vain();
    assert_non_null(strstr(captured, "nothing received from rank 2 for 1 s (sync.deadline): did it start?"));
    assert_null(strstr(captured, "network"));
    _exit(0);
}

/* What start_many_without_one says. */
static char said_path[] = "/tmp/pipetrain-said.XXXXXX";
static int said_file;

/* Enough for a tree. Until all have started, the first ones wait in MPI_Init, for less than the deadline. */
enum { STARTING = 20 };

/* Rank 0 ends before the other ranks report the same. */
static void start_many_without_one(void)
{
    int codes[STARTING];
    assert_non_null(freopen(said_path, "w", stderr));
    fake_mpi_reset(STARTING, 1, 1);
    fake_mpi_cut(STARTING - 1);
    fake_ranks_try_open(ranks, STARTING, 2, codes);
    sleep(10);
    _exit(0);
}

static void expect_hang(void)
{
    capture_begin(&capture);
    await_failure(1);
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(stop_code(stops[1]), EXIT_CODE_STALL);
    assert_non_null(strstr(stop_message(stops[1]), "the MPI library has not returned for 1 s (sync.deadline)"));
    remove_stops();
    _exit(0);
}

static void hang(void)
{
    open_ranks(SIZE, 2, 1);
    set_stops();
    fake_mpi_hang(1);
    expect_hang();
}

static int advance_never(struct ranks_job *job)
{
    (void)job;
    while (pause() != 0)
        continue;
    return 0;
}

/* The first thread of the rank still gets and sends messages. */
static void hang_another_thread(void)
{
    struct ranks_job job = { .advance = advance_never, .lane = 1 };
    fake_mpi_set_threads(true);
    open_ranks(SIZE, 2, 1);
    set_stops();
    ranks_submit(ranks[1], &job);
    expect_hang();
}

/* How many ranks left the launcher, in all processes: those of end_after_hang, and of end_after_silence. */
struct left_counts { atomic_int after_hang, after_silence; };
static struct left_counts *left;

static void count_left_after_hang(void)
{
    atomic_fetch_add(&left->after_hang, 1);
}

static void count_left_after_silence(void)
{
    atomic_fetch_add(&left->after_silence, 1);
}

/* A device of rank 1 hangs; it reports that, and all ranks end by themselves. */
static void end_after_hang(void)
{
    open_ranks(SIZE, 2, 60);
    set_stops();
    fake_mpi_on_leave(count_left_after_hang);
    capture_begin(&capture);
    stop_fail(stops[1], EXIT_CODE_STALL, "tower 1 hangs");
    sleep(10);
    _exit(0);
}

/* Both find that the other is silent and may never end. A third one would only hear of it, and may leave. */
static void end_after_silence(void)
{
    open_ranks(2, 2, 1);
    fake_mpi_on_leave(count_left_after_silence);
    capture_begin(&capture);
    fake_mpi_cut(1);
    sleep(10);
    _exit(0);
}

/* calloc fails once in this thread. */
static _Thread_local bool is_short_of_memory;

void *__wrap_calloc(size_t count, size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    const bool fails = is_short_of_memory;
    is_short_of_memory = false;
    return fails ? NULL : __real_calloc(count, bytes);
}

/* The main of this rank would go on, or wait for an answer; so the watch ends the process. */
static void lose_message(void)
{
    open_ranks(SIZE, 2, 60);
    set_stops();
    capture_begin(&capture);
    is_short_of_memory = true;
    assert_int_equal(ranks_send(ranks[1], 0, MESSAGE_REPORT, "lost", 4), -ENOMEM);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        await_failure(rank);
    capture_end(&capture, captured, sizeof(captured));
    assert_non_null(strstr(captured, "message to rank 0 ("));
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_int_equal(stop_code(stops[rank]), rank == 1 ? EXIT_CODE_MEMORY : EXIT_CODE_RANK);
    sleep(10);
    _exit(0);
}

static void lose_heartbeat(void)
{
    open_ranks(SIZE, 2, 2);
    is_short_of_memory = true;
    ranks_set_phase(ranks[1], "planning");
    assert_false(is_short_of_memory);
    usleep(3000000);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_false(ranks_failed(ranks[rank]));
    fake_ranks_close(ranks, SIZE);
    _exit(0);
}

/* All of these, and the exit codes of their processes, which spend their time waiting for deadlines. They begin before
 * all tests, and end beside them. */
static struct ending { void (*run)(void); int code; pid_t process; } endings[] = {
    { .run = fall_silent },
    { .run = fall_silent_in_the_tree },
    { .run = silence_a_parent },
    { .run = fail_in_the_tree },
    { .run = start_parted },
    { .run = start_without_one },
    { .run = start_many_without_one, .code = EXIT_CODE_STALL },
    { .run = hang },
    { .run = hang_another_thread },
    { .run = end_after_silence, .code = EXIT_CODE_STALL },
    { .run = end_after_hang, .code = EXIT_CODE_STALL },
    { .run = lose_message, .code = EXIT_CODE_MEMORY },
    { .run = lose_heartbeat },
};
enum { ENDINGS = sizeof(endings) / sizeof(endings[0]) };

static int start_endings(void **state)
{
    (void)state;
    left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(left, MAP_FAILED);
    said_file = mkstemp(said_path);
    for (size_t i = 0; i < ENDINGS; i++) {
        endings[i].process = fork();
        assert_true(endings[i].process >= 0);
        if (endings[i].process == 0)
            endings[i].run();
    }
    return 0;
}

static void expect_end(void (*run)(void))
{
    int status;
    const struct ending *ending = endings;
    while (ending->run != run)
        ending++;
    assert_int_equal(waitpid(ending->process, &status, 0), ending->process);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), ending->code);
}

TEST(a_silent_rank_ends_the_run_within_the_deadline_and_is_named)
{
    expect_end(fall_silent);
}

TEST(a_rank_that_falls_silent_or_fails_in_the_tree_is_named)
{
    expect_end(fall_silent_in_the_tree);
    expect_end(silence_a_parent);
    expect_end(fail_in_the_tree);
}

TEST(ranks_that_do_not_hear_of_each_other_do_not_start)
{
    expect_end(start_parted);
    expect_end(start_without_one);
}

TEST(of_many_ranks_that_do_not_start_one_says_why)
{
    char said[4096];
    expect_end(start_many_without_one);
    const ssize_t bytes = read(said_file, said, sizeof(said) - 1);
    assert_true(bytes > 0);
    said[bytes] = '\0';
    assert_string_equal(said, "pipetrain: nothing received from rank 19 for 2 s (sync.deadline): do the two use the same "
                              "network?\n");
    close(said_file);
    unlink(said_path);
}

TEST(a_library_that_hangs_in_any_thread_ends_the_run)
{
    expect_end(hang);
    expect_end(hang_another_thread);
}

TEST(the_launcher_is_left_unless_it_has_to_end_a_rank)
{
    expect_end(end_after_silence);
    expect_end(end_after_hang);
    assert_int_equal(atomic_load(&left->after_silence), 0);
    assert_true(atomic_load(&left->after_hang) > 0);
    munmap(left, sizeof(*left));
}

TEST(a_message_that_is_lost_for_lack_of_memory_ends_the_run)
{
    expect_end(lose_message);
}

TEST(a_heartbeat_that_is_lost_is_sent_later)
{
    expect_end(lose_heartbeat);
}

static int advance_to_error(struct ranks_job *job)
{
    (void)job;
    return -77;
}

/* Its messages may still be in flight. */
TEST(a_job_that_fails_ends_the_run_and_counts_as_abandoned)
{
    struct ranks_job job = { .advance = advance_to_error };
    open_ranks(SIZE, 2, 60);
    set_stops();
    assert_false(ranks_abandon_jobs(ranks[1]));
    capture_begin(&capture);
    ranks_submit(ranks[1], &job);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        await_failure(rank);
    capture_end(&capture, captured, sizeof(captured));
    assert_non_null(strstr(captured, "a message between ranks failed: error 77 of the fake"));
    assert_true(ranks_abandon_jobs(ranks[1]));
    remove_stops();
}

static int advance_until_abandoned(struct ranks_job *job)
{
    (void)job;
    sem_post(&advancing);
    sem_wait(&abandoning);
    return 1;
}

/* The job ends between the call and the communication thread's next look at its jobs: no message of it is in flight. */
TEST(a_job_that_ends_in_time_is_not_abandoned)
{
    struct ranks_job job = { .advance = advance_until_abandoned };
    assert_int_equal(sem_init(&abandoning, 0, 0), 0);
    assert_int_equal(sem_init(&advancing, 0, 0), 0);
    open_ranks(SIZE, 2, 60);
    ranks_submit(ranks[1], &job);
    sem_wait(&advancing);
    is_abandoning = true;
    const bool was_abandoned = ranks_abandon_jobs(ranks[1]);
    is_abandoning = false;
    assert_false(was_abandoned);
    fake_ranks_close(ranks, SIZE);
}

TEST(all_ranks_fail_when_one_does_and_say_which)
{
    for (uint32_t failing = 0; failing < SIZE; failing++) {
        open_ranks(SIZE, 2, 60);
        set_stops();
        capture_begin(&capture);
        stop_fail(stops[failing], EXIT_CODE_DATA, "shard 7 is damaged");
        for (uint32_t rank = 0; rank < SIZE; rank++)
            await_failure(rank);
        capture_end(&capture, captured, sizeof(captured));
        assert_non_null(strstr(captured, "shard 7 is damaged"));
        assert_null(strstr(strstr(captured, "shard 7 is damaged") + 1, "shard 7 is damaged"));
        for (uint32_t rank = 0; rank < SIZE; rank++) {
            assert_int_equal(stop_code(stops[rank]), rank == failing ? EXIT_CODE_DATA : EXIT_CODE_RANK);
            assert_non_null(strstr(stop_message(stops[rank]), "shard 7 is damaged"));
            assert_true(ranks_failed(ranks[rank]));
        }
        struct message *message;
        assert_int_equal(ranks_receive(ranks[0], 1, MESSAGE_REPORT, &message), -ECANCELED);
        send_numbered(ranks[1], 0, MESSAGE_COLLECTIVE, 3, 10);        /* they still meet */
        receive_numbered(ranks[0], 1, MESSAGE_COLLECTIVE, 3, 10);
        remove_stops();
    }
}

/* Main ends such a run in an orderly way, unless it cannot. */
TEST(numbers_that_are_not_finite_are_passed_on_only_when_asked_to)
{
    open_ranks(SIZE, 2, 60);
    set_stops();
    capture_begin(&capture);
    stop_fail(stops[0], EXIT_CODE_NONFINITE, "the loss is not finite");
    usleep(200000);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_false(ranks_failed(ranks[rank]));
    ranks_announce_failure(ranks[0]);
    for (uint32_t rank = 1; rank < SIZE; rank++) {
        await_failure(rank);
        assert_int_equal(stop_code(stops[rank]), EXIT_CODE_RANK);
        assert_string_equal(stop_message(stops[rank]), "the loss is not finite");
    }
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(ranks_failure_code(ranks[0]), EXIT_CODE_NONFINITE);
    remove_stops();
}

TEST(an_error_of_the_library_ends_the_run)
{
    open_ranks(SIZE, 2, 60);
    set_stops();
    capture_begin(&capture);
    fake_mpi_break(1);
    await_failure(1);
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(stop_code(stops[1]), EXIT_CODE_RANK);
    assert_non_null(strstr(captured, "the connection to rank 0 ("));
    assert_non_null(strstr(captured, "error 77 of the fake"));
    remove_stops();
}

/* Who waits for a rank is woken before the cause is printed, and before a cause of another rank has arrived. */
TEST(main_awaits_the_cause_of_a_failure)
{
    open_ranks(SIZE, 2, 60);
    set_stops();
    capture_begin(&capture);
    fake_mpi_break(1);
    while (!ranks_failed(ranks[1]))
        continue;
    ranks_await_cause(ranks[1]);
    assert_int_equal(stop_code(stops[1]), EXIT_CODE_RANK);
    capture_end(&capture, captured, sizeof(captured));
    remove_stops();

    open_ranks(SIZE, 2, 60);
    set_stops();
    capture_begin(&capture);
    stop_fail(stops[1], EXIT_CODE_MEMORY, "no memory");
    ranks_await_cause(ranks[0]);
    capture_end(&capture, captured, sizeof(captured));
    assert_true(stop_failed(stops[0]));
    remove_stops();
    ranks_await_cause(NULL);
}

TEST(a_run_that_begins_after_a_failure_fails_at_once)
{
    struct stop *late;
    open_ranks(SIZE, 2, 60);
    set_stops();
    capture_begin(&capture);
    stop_fail(stops[1], EXIT_CODE_MEMORY, "no memory");
    await_failure(0);
    capture_end(&capture, captured, sizeof(captured));
    remove_stops();
    assert_int_equal(stop_open(&late), 0);
    assert_int_equal(ranks_set_stop(ranks[0], late), 0);
    assert_int_equal(stop_code(late), EXIT_CODE_RANK);
    assert_int_equal(ranks_set_stop(ranks[0], NULL), 0);
    stop_close(late);
}

TESTS_MAIN(start_endings, NULL)
