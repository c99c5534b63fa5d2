/* Ranks in one process. */
#include "tests/helpers/fake_mpi.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"

enum { HANDLES = 4096, BROKEN = 77 };

struct fake_message {
    struct fake_message *next;
    uint32_t from, to;
    int tag;
    size_t bytes;
    char data[];
};

/* A request: a receive that waits for its message, or a send that has passed after some tests. */
struct fake_request {
    bool is_used, is_receive;
    uint32_t from, to, tests;
    int tag;
    void *data;
    size_t room;
    uint64_t order;             /* of the receives */
    struct fake_message *message;       /* that it got; NULL: none yet */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_message *first;
static struct fake_request requests[HANDLES];
static bool is_cut[FAKE_RANKS_MAX], hangs[FAKE_RANKS_MAX], is_broken[FAKE_RANKS_MAX];
static bool are_parted[FAKE_RANKS_MAX][FAKE_RANKS_MAX];
static uint32_t ranks_size_now, tests_most, draw;
static uint64_t receives, handles;      /* handles: that were ever used in this test */
static uint32_t test_number;
static sem_t may_start;
static uint32_t next_rank;
static _Thread_local uint32_t own_rank, own_test;

/* ---- settings of a test ---- */

void fake_mpi_reset(uint32_t size, uint32_t tests, uint32_t seed)
{
    pthread_mutex_lock(&lock);
    while (first != NULL) {
        struct fake_message *const next = first->next;
        free(first);
        first = next;
    }
    for (uint64_t i = 0; i < handles; i++)
        free(requests[i].message);
    memset(requests, 0, sizeof(requests));
    handles = 0;
    test_number++;              /* threads of tests before stay where they are */
    memset(is_cut, 0, sizeof(is_cut));
    memset(are_parted, 0, sizeof(are_parted));
    memset(hangs, 0, sizeof(hangs));
    memset(is_broken, 0, sizeof(is_broken));
    ranks_size_now = size;
    tests_most = tests;
    draw = seed;
    pthread_mutex_unlock(&lock);
}

static void set(bool *flag)
{
    pthread_mutex_lock(&lock);
    *flag = true;
    pthread_mutex_unlock(&lock);
}

void fake_mpi_cut(uint32_t rank)
{
    set(&is_cut[rank]);
}

void fake_mpi_part(uint32_t rank, uint32_t other)
{
    set(&are_parted[rank][other]);
    set(&are_parted[other][rank]);
}

void fake_mpi_hang(uint32_t rank)
{
    set(&hangs[rank]);
}

void fake_mpi_break(uint32_t rank)
{
    set(&is_broken[rank]);
}

/* ---- the module ---- */

static int fake_init(uint32_t *rank_out, uint32_t *size_out)
{
    own_rank = next_rank;
    own_test = test_number;
    *rank_out = own_rank;
    *size_out = ranks_size_now;
    sem_post(&may_start);
    return 0;
}

static void fake_name(char *name_out)
{
    snprintf(name_out, MPI_MODULE_TEXT_BYTES, "fake MPI 1.0");
}

/* Lock held. */
static struct fake_request *new_request(struct mpi_request *request_out)
{
    uint64_t handle = 0;
    while (handle < HANDLES && requests[handle].is_used)
        handle++;
    assert_true(handle < HANDLES);
    handles = handle < handles ? handles : handle + 1;
    request_out->handle = handle;
    draw = draw * 1664525u + 1013904223u;
    requests[handle] = (struct fake_request){ .is_used = true, .tests = (draw >> 16) % (tests_most + 1) };
    return &requests[handle];
}

static void append(struct fake_message *message)
{
    struct fake_message **link = &first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = message;
}

/* Take the lock; a thread of a test before, or one that shall hang, never returns. */
static void enter(void)
{
    pthread_mutex_lock(&lock);
    while (own_test != test_number || hangs[own_rank]) {
        pthread_mutex_unlock(&lock);
        pause();
        pthread_mutex_lock(&lock);
    }
}

static int fake_send(const void *data, size_t bytes, uint32_t to, int tag, struct mpi_request *request_out)
{
    enter();
    struct fake_message *const message = malloc(sizeof(*message) + bytes);
    assert_non_null(message);
    *message = (struct fake_message){ .from = own_rank, .to = to, .tag = tag, .bytes = bytes };
    memcpy(message->data, data, bytes);
    (void)new_request(request_out);
    append(message);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int fake_receive(void *data, size_t bytes, uint32_t from, int tag, struct mpi_request *request_out)
{
    enter();
    struct fake_request *const request = new_request(request_out);
    request->is_receive = true;
    request->order = receives++;
    request->from = from;
    request->to = own_rank;
    request->tag = tag;
    request->data = data;
    request->room = bytes;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* The receive that was posted first of those that wait for this message; NULL: none does. Lock held. */
static struct fake_request *find_receive(const struct fake_message *message)
{
    struct fake_request *found = NULL;
    for (uint64_t i = 0; i < handles; i++) {
        struct fake_request *const request = &requests[i];
        if (request->is_used && request->is_receive && request->message == NULL && request->from == message->from &&
            request->to == message->to && request->tag == message->tag && (found == NULL || request->order < found->order))
            found = request;
    }
    return found;
}

/* Give all messages to those who wait for them, in order. Lock held. */
static void match_all(void)
{
    struct fake_message **link = &first;
    while (*link != NULL) {
        struct fake_message *const message = *link;
        const bool is_held = is_cut[message->from] || is_cut[message->to] || are_parted[message->from][message->to];
        struct fake_request *const request = is_held ? NULL : find_receive(message);
        if (request == NULL) {
            link = &message->next;
            continue;
        }
        *link = message->next;
        request->message = message;
    }
}

static bool try(struct fake_request *request)
{
    match_all();
    if (request->tests > 0) {
        request->tests--;
        return false;
    }
    if (!request->is_receive)
        return true;
    struct fake_message *const message = request->message;
    if (message == NULL)
        return false;
    assert_true(message->bytes <= request->room);
    memcpy(request->data, message->data, message->bytes);
    free(message);
    request->message = NULL;
    return true;
}

static int fake_test(struct mpi_request *request, bool *has_passed_out)
{
    enter();
    const bool has_broken = is_broken[own_rank];
    *has_passed_out = !has_broken && try(&requests[request->handle]);
    if (*has_passed_out)
        requests[request->handle].is_used = false;
    pthread_mutex_unlock(&lock);
    return has_broken ? BROKEN : 0;
}

static void fake_cancel(struct mpi_request *request)
{
    pthread_mutex_lock(&lock);
    requests[request->handle].is_used = false;
    pthread_mutex_unlock(&lock);
}

static void fake_explain(int error, char *text_out)
{
    snprintf(text_out, MPI_MODULE_TEXT_BYTES, "error %d of the fake", error);
}

static void fake_leave(void)
{
}

static int fake_finalize(void)
{
    return 0;
}

const struct mpi_module fake_mpi = {
    .version = MPI_MODULE_VERSION,
    .init = fake_init,
    .name = fake_name,
    .send = fake_send,
    .receive = fake_receive,
    .test = fake_test,
    .cancel = fake_cancel,
    .explain = fake_explain,
    .finalize = fake_finalize,
    .leave = fake_leave,
};

/* ---- ranks ---- */

struct opening {
    struct launcher launcher;
    struct thread *thread;
    struct ranks *ranks;
    uint32_t deadline_s;
    int code;
};

static void open_rank(void *arg)
{
    struct opening *const opening = arg;
    opening->code = ranks_open(&opening->ranks, &opening->launcher, &fake_mpi, opening->deadline_s);
}

/* Ranks are initialized one after the other, so that each thread finds its number. */
void fake_ranks_try_open(struct ranks *ranks_out[], uint32_t size, uint32_t deadline_s, int codes_out[])
{
    struct opening openings[FAKE_RANKS_MAX];
    assert_int_equal(sem_init(&may_start, 0, 0), 0);
    for (uint32_t rank = 0; rank < size; rank++) {
        openings[rank] = (struct opening){ .launcher = { .mpi = MPI_LIBRARY_OPENMPI, .rank = rank, .size = size,
                                                         .local_rank = rank, .local_size = size },
                                           .deadline_s = deadline_s };
        next_rank = rank;
        assert_int_equal(thread_start(&openings[rank].thread, "rank", open_rank, &openings[rank]), 0);
        sem_wait(&may_start);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        thread_join(openings[rank].thread);
        codes_out[rank] = openings[rank].code;
        ranks_out[rank] = openings[rank].ranks;
    }
}

void fake_ranks_open(struct ranks *ranks_out[], uint32_t size, uint32_t deadline_s)
{
    int codes[FAKE_RANKS_MAX];
    fake_ranks_try_open(ranks_out, size, deadline_s, codes);
    for (uint32_t rank = 0; rank < size; rank++)
        assert_int_equal(codes[rank], 0);
}

void fake_ranks_close(struct ranks *ranks[], uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++)
        ranks_close(ranks[rank]);
}
