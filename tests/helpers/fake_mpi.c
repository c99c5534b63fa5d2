/* Ranks in one process. A rank has a box for the messages to it and its requests, with a lane for each sender: so a
 * message finds its receive among those of two ranks only. */
#include "tests/helpers/fake_mpi.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "sync/ranks/ranks_private.h"
#include "tests/helpers/test.h"

enum { BROKEN = 77, CHUNK = 256, NO_REQUEST = 0, FEW = 8 };

struct fake_message {
    struct fake_message *next;
    int tag;
    enum fake_traffic traffic;
    uint64_t due_ns;            /* it does not arrive before */
    size_t bytes;
    char data[];
};

/* A request: a receive that waits for its message, or a send that has passed after some tests. */
struct fake_request {
    struct fake_request *next;          /* of those of its lane that wait, or of the free ones */
    bool is_receive;
    uint32_t from, tests;
    int tag;
    void *data;
    size_t room;
    struct fake_message *message;       /* that it got; NULL: none yet */
};

/* What a rank gets from another: messages that no receive waits for, and receives without a message, in order. */
struct lane {
    struct fake_message *first, **end;
    struct fake_request *waiting, **waiting_end;
};

struct box {
    pthread_mutex_t lock;       /* guards the members below */
    struct lane *lanes;         /* [sender] */
    struct fake_request **chunks;       /* of CHUNK requests; request i + 1 is number i % CHUNK of chunk i / CHUNK */
    struct fake_request *free;
    uint64_t chunk_count, used;
    uint32_t draw;
    struct fake_counts counts;
    /* Settings of the test: */
    atomic_bool is_cut, hangs, is_broken;
    atomic_bool *are_parted;    /* [rank] */
    atomic_uint_fast64_t delay_ns;
};

/* Held for reading in every call of a rank, and for writing while a test replaces the boxes. */
static pthread_rwlock_t testing = PTHREAD_RWLOCK_INITIALIZER;
static struct box *boxes;
static uint32_t ranks_size_now, tests_most;
static uint32_t test_number;
static sem_t may_start;
static pthread_barrier_t initializing;
static uint32_t next_rank;
static atomic_bool are_threads_allowed;
static _Thread_local uint32_t own_rank, own_test;

/* ---- settings of a test ---- */

static void lane_clear(struct lane *lane)
{
    for (struct fake_message *message = lane->first, *next; message != NULL; message = next) {
        next = message->next;
        free(message);
    }
}

static void box_clear(struct box *box)
{
    for (uint32_t from = 0; from < ranks_size_now; from++)
        lane_clear(&box->lanes[from]);
    for (uint64_t c = 0; c < box->chunk_count; c++) {
        for (uint32_t i = 0; i < CHUNK; i++)
            free(box->chunks[c][i].message);
        free(box->chunks[c]);
    }
    free(box->chunks);
    free(box->lanes);
    free(box->are_parted);
    pthread_mutex_destroy(&box->lock);
}

static void box_init(struct box *box, uint32_t size, uint32_t draw)
{
    pthread_mutex_init(&box->lock, NULL);
    box->draw = draw;
    box->lanes = malloc(size * sizeof(*box->lanes));
    box->are_parted = malloc(size * sizeof(*box->are_parted));
    assert_true(box->lanes != NULL && box->are_parted != NULL);
    for (uint32_t from = 0; from < size; from++) {
        struct lane *const lane = &box->lanes[from];
        *lane = (struct lane){ .end = &lane->first, .waiting_end = &lane->waiting };
        atomic_init(&box->are_parted[from], false);
    }
}

void fake_mpi_reset(uint32_t size, uint32_t tests, uint32_t seed)
{
    pthread_rwlock_wrlock(&testing);
    for (uint32_t rank = 0; rank < ranks_size_now; rank++)
        box_clear(&boxes[rank]);
    free(boxes);
    boxes = malloc(size * sizeof(*boxes));
    assert_non_null(boxes);
    memset(boxes, 0, size * sizeof(*boxes));
    for (uint32_t rank = 0; rank < size; rank++)
        box_init(&boxes[rank], size, seed + rank);
    test_number++;              /* threads of tests before stay where they are */
    ranks_size_now = size;
    tests_most = tests;
    pthread_rwlock_unlock(&testing);
}

void fake_mpi_cut(uint32_t rank)
{
    atomic_store(&boxes[rank].is_cut, true);
}

void fake_mpi_part(uint32_t rank, uint32_t other)
{
    atomic_store(&boxes[rank].are_parted[other], true);
    atomic_store(&boxes[other].are_parted[rank], true);
}

void fake_mpi_hang(uint32_t rank)
{
    atomic_store(&boxes[rank].hangs, true);
}

void fake_mpi_break(uint32_t rank)
{
    atomic_store(&boxes[rank].is_broken, true);
}

void fake_mpi_delay(uint32_t rank, uint64_t delay_ns)
{
    atomic_store(&boxes[rank].delay_ns, delay_ns);
}

void fake_mpi_set_threads(bool are_allowed)
{
    atomic_store(&are_threads_allowed, are_allowed);
}

struct fake_identity fake_mpi_identity(void)
{
    return (struct fake_identity){ own_rank, own_test };
}

void fake_mpi_adopt(struct fake_identity identity)
{
    own_rank = identity.rank;
    own_test = identity.test;
}

struct fake_counts fake_mpi_counts(uint32_t rank)
{
    pthread_mutex_lock(&boxes[rank].lock);
    const struct fake_counts counts = boxes[rank].counts;
    pthread_mutex_unlock(&boxes[rank].lock);
    return counts;
}

/* ---- the module ---- */

/* Of many ranks it returns when all have called it, so that those that are open do not poll while others start. */
static int fake_init(bool wants_threads, uint32_t *rank_out, uint32_t *size_out, bool *has_threads_out)
{
    *has_threads_out = wants_threads && atomic_load(&are_threads_allowed);
    own_rank = next_rank;
    own_test = test_number;
    *rank_out = own_rank;
    *size_out = ranks_size_now;
    const bool waits = ranks_size_now > FEW;
    sem_post(&may_start);
    if (waits)
        pthread_barrier_wait(&initializing);
    return 0;
}

static void fake_name(char *name_out)
{
    snprintf(name_out, MPI_MODULE_TEXT_BYTES, "fake MPI 1.0");
}

/* Begin a call, and return the box of the calling rank; a thread of a test before, or one that shall hang, never
 * returns. */
static struct box *enter(void)
{
    pthread_rwlock_rdlock(&testing);
    while (own_test != test_number || atomic_load(&boxes[own_rank].hangs)) {
        pthread_rwlock_unlock(&testing);
        pause();
        pthread_rwlock_rdlock(&testing);
    }
    return &boxes[own_rank];
}

static void leave(void)
{
    pthread_rwlock_unlock(&testing);
}

/* Box locked. */
static struct fake_request *request_at(const struct box *box, struct mpi_request request)
{
    return &box->chunks[(request.handle - 1) / CHUNK][(request.handle - 1) % CHUNK];
}

static void add_chunk(struct box *box)
{
    box->chunks = realloc(box->chunks, (box->chunk_count + 1) * sizeof(*box->chunks));
    assert_non_null(box->chunks);
    struct fake_request *const chunk = malloc(CHUNK * sizeof(*chunk));
    assert_non_null(chunk);
    memset(chunk, 0, CHUNK * sizeof(*chunk));
    box->chunks[box->chunk_count] = chunk;
    for (uint32_t i = CHUNK; i-- > 0; box->free = &chunk[i]) {
        chunk[i].next = box->free;
        chunk[i].room = box->chunk_count * CHUNK + i + 1;       /* the handle, while it is free */
    }
    box->chunk_count++;
}

/* Box locked. */
static struct fake_request *new_request(struct box *box, struct mpi_request *request_out)
{
    if (box->free == NULL)
        add_chunk(box);
    struct fake_request *const request = box->free;
    box->free = request->next;
    request_out->handle = request->room;
    box->draw = box->draw * 1664525u + 1013904223u;
    *request = (struct fake_request){ .tests = (box->draw >> 16) % (tests_most + 1) };
    box->used++;
    if (box->used > box->counts.requests_most)
        box->counts.requests_most = box->used;
    return request;
}

/* Box locked. */
static void free_request(struct box *box, struct mpi_request *request)
{
    struct fake_request *const freed = request_at(box, *request);
    *freed = (struct fake_request){ .next = box->free, .room = request->handle };
    box->free = freed;
    box->used--;
    request->handle = NO_REQUEST;
}

static enum fake_traffic traffic_of(int tag, const void *data)
{
    if (tag >= RANKS_TAG_FREE)
        return FAKE_JOBS;
    if (tag >= WAKEUP_TAG)
        return FAKE_WAKEUPS;
    const struct envelope *const envelope = data;
    return tag == ENVELOPE_TAG && envelope->kind == MESSAGE_HEARTBEAT ? FAKE_HEARTBEATS : FAKE_MAIL;
}

static void count(struct fake_count *counts, const struct fake_message *message)
{
    counts[message->traffic].messages++;
    counts[message->traffic].bytes += message->bytes;
}

static struct fake_message *new_message(const void *data, size_t bytes, int tag, uint64_t delay_ns)
{
    struct fake_message *const message = malloc(sizeof(*message) + bytes);
    assert_non_null(message);
    *message = (struct fake_message){ .tag = tag, .traffic = traffic_of(tag, data), .bytes = bytes,
                                      .due_ns = delay_ns > 0 ? clock_now_ns() + delay_ns : 0 };
    memcpy(message->data, data, bytes);
    return message;
}

/* Give the message to the receive that was posted first of those that wait for it. False: none does. Box locked. */
static bool give(struct lane *lane, struct fake_message *message)
{
    struct fake_request **link = &lane->waiting;
    while (*link != NULL && (*link)->tag != message->tag)
        link = &(*link)->next;
    struct fake_request *const request = *link;
    if (request == NULL)
        return false;
    *link = request->next;
    if (lane->waiting_end == &request->next)
        lane->waiting_end = link;
    request->message = message;
    return true;
}

static int fake_send(const void *data, size_t bytes, uint32_t to, int tag, struct mpi_request *request_out)
{
    struct box *const box = enter(), *const other = &boxes[to];
    struct fake_message *const message = new_message(data, bytes, tag, atomic_load(&box->delay_ns));
    const bool is_held = atomic_load(&box->is_cut) || atomic_load(&other->is_cut) ||
                         atomic_load(&box->are_parted[to]);
    pthread_mutex_lock(&box->lock);
    (void)new_request(box, request_out);
    count(box->counts.sent, message);
    pthread_mutex_unlock(&box->lock);
    struct lane *const lane = &other->lanes[own_rank];
    pthread_mutex_lock(&other->lock);
    if (is_held)
        free(message);
    else if (!give(lane, message)) {
        *lane->end = message;
        lane->end = &message->next;
    }
    pthread_mutex_unlock(&other->lock);
    leave();
    return 0;
}

/* The first message for this receive, which is removed from the lane; NULL: there is none. Box locked. */
static struct fake_message *take(struct lane *lane, int tag)
{
    struct fake_message **link = &lane->first;
    while (*link != NULL && (*link)->tag != tag)
        link = &(*link)->next;
    struct fake_message *const message = *link;
    if (message == NULL)
        return NULL;
    *link = message->next;
    if (lane->end == &message->next)
        lane->end = link;
    return message;
}

static int fake_receive(void *data, size_t bytes, uint32_t from, int tag, struct mpi_request *request_out)
{
    struct box *const box = enter();
    struct lane *const lane = &box->lanes[from];
    pthread_mutex_lock(&box->lock);
    struct fake_request *const request = new_request(box, request_out);
    request->is_receive = true;
    request->from = from;
    request->tag = tag;
    request->data = data;
    request->room = bytes;
    request->message = take(lane, tag);
    if (request->message == NULL) {
        *lane->waiting_end = request;
        lane->waiting_end = &request->next;
    }
    pthread_mutex_unlock(&box->lock);
    leave();
    return 0;
}

/* Is the request complete? Box locked. */
static bool try(struct box *box, struct fake_request *request)
{
    if (request->tests > 0) {
        request->tests--;
        return false;
    }
    if (!request->is_receive)
        return true;
    struct fake_message *const message = request->message;
    const bool is_held = atomic_load(&box->is_cut) || atomic_load(&boxes[request->from].is_cut) ||
                         atomic_load(&box->are_parted[request->from]);
    if (message == NULL || is_held || (message->due_ns > 0 && clock_now_ns() < message->due_ns))
        return false;
    assert_true(message->bytes <= request->room);
    memcpy(request->data, message->data, message->bytes);
    count(box->counts.received, message);
    free(message);
    request->message = NULL;
    return true;
}

/* As with MPI_REQUEST_NULL, a request that has passed passes again. */
static int fake_test(struct mpi_request *request, bool *has_passed_out)
{
    struct box *const box = enter();
    const bool has_broken = atomic_load(&box->is_broken);
    pthread_mutex_lock(&box->lock);
    *has_passed_out = !has_broken && (request->handle == NO_REQUEST || try(box, request_at(box, *request)));
    if (*has_passed_out && request->handle != NO_REQUEST)
        free_request(box, request);
    pthread_mutex_unlock(&box->lock);
    leave();
    return has_broken ? BROKEN : 0;
}

/* Only receives are cancelled. */
static void fake_cancel(struct mpi_request *request)
{
    struct box *const box = enter();
    pthread_mutex_lock(&box->lock);
    struct fake_request *const cancelled = request_at(box, *request);
    struct lane *const lane = &box->lanes[cancelled->from];
    struct fake_request **link = &lane->waiting;
    while (*link != NULL && *link != cancelled)
        link = &(*link)->next;
    if (*link == cancelled) {
        *link = cancelled->next;
        if (lane->waiting_end == &cancelled->next)
            lane->waiting_end = link;
    }
    free(cancelled->message);
    free_request(box, request);
    pthread_mutex_unlock(&box->lock);
    leave();
}

static void fake_explain(int error, char *text_out)
{
    snprintf(text_out, MPI_MODULE_TEXT_BYTES, "error %d of the fake", error);
}

static void (*on_leave)(void);

void fake_mpi_on_leave(void (*call)(void))
{
    on_leave = call;
}

static void fake_leave(void)
{
    if (on_leave != NULL)
        on_leave();
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
    const bool is_one_host = !atomic_load(&are_threads_allowed);
    assert_int_equal(sem_init(&may_start, 0, 0), 0);
    assert_int_equal(pthread_barrier_init(&initializing, NULL, size), 0);
    for (uint32_t rank = 0; rank < size; rank++) {
        openings[rank] = (struct opening){ .launcher = { .mpi = MPI_LIBRARY_OPENMPI, .rank = rank, .size = size,
                                                         .local_rank = is_one_host ? rank : 0,
                                                         .local_size = is_one_host ? size : 1 },
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
    pthread_barrier_destroy(&initializing);
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
