/* Tests of parts of checkpoints as message: what other ranks put is what rank 0 takes, however long tensors are. The
 * ranks are threads. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stage/thread.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/ranks/checkpoint_transfer.h"

enum { RANKS = 3, TENSORS = 4 };

/* ---- ranks that are threads ---- */

static _Thread_local uint32_t own_rank;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct message *boxes[RANKS][RANKS][MESSAGE_KINDS];    /* [from][to][kind] */
static bool has_failed;
static size_t longest;          /* of any message */

uint32_t __wrap_ranks_rank(const struct ranks *ranks);
int __wrap_ranks_send(struct ranks *ranks, uint32_t to, enum message_kind kind, const void *data, size_t bytes);
int __wrap_ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes);
int __wrap_ranks_receive(struct ranks *ranks, uint32_t from, enum message_kind kind, struct message **message_out);

uint32_t __wrap_ranks_rank(const struct ranks *ranks)
{
    (void)ranks;
    return own_rank;
}

int __wrap_ranks_send(struct ranks *ranks, uint32_t to, enum message_kind kind, const void *data, size_t bytes)
{
    (void)ranks;
    struct message *const message = malloc(sizeof(*message) + bytes);
    *message = (struct message){ .from = own_rank, .bytes = bytes };
    if (bytes > 0)
        memcpy(message->data, data, bytes);
    pthread_mutex_lock(&lock);
    struct message **place = &boxes[own_rank][to][kind];
    while (*place != NULL)
        place = &(*place)->next;
    *place = message;
    longest = bytes > longest ? bytes : longest;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}

int __wrap_ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes)
{
    for (uint32_t to = 1; to < RANKS; to++)
        __wrap_ranks_send(ranks, to, kind, data, bytes);
    return 0;
}

int __wrap_ranks_receive(struct ranks *ranks, uint32_t from, enum message_kind kind, struct message **message_out)
{
    (void)ranks;
    pthread_mutex_lock(&lock);
    struct message **const place = &boxes[from][own_rank][kind];
    while (*place == NULL && !has_failed)
        pthread_cond_wait(&changed, &lock);
    struct message *const message = *place;
    if (message != NULL)
        *place = message->next;
    pthread_mutex_unlock(&lock);
    *message_out = message;
    return message != NULL ? 0 : -ECANCELED;
}

/* ---- tensors ---- */

/* The tensors of a tower; one of them is longer than two parts. */
static const size_t sizes[TENSORS] = { 4, 2 * CHECKPOINT_TRANSFER_PART_BYTES + 12, 100, CHECKPOINT_TRANSFER_PART_BYTES - 104 };
static const size_t total = 4 + 2 * CHECKPOINT_TRANSFER_PART_BYTES + 12 + 100 + CHECKPOINT_TRANSFER_PART_BYTES - 104;
static unsigned char *tensor;   /* any of the longest; its numbers differ from byte to byte */
static int error_of_rank_2;
static uint32_t broken;         /* the tensor of rank 2 that has the error, in the first checkpoint */

static void open_tensor(void)
{
    tensor = malloc(sizes[1]);
    for (size_t i = 0; i < sizes[1]; i++)
        tensor[i] = (unsigned char)(i * 2654435761u >> 13);
}

/* Tensor i of a tower begins at another byte of `tensor`. */
static const unsigned char *data_of(uint32_t tower, uint32_t i)
{
    return i == 1 ? tensor : tensor + 7 * tower + i;
}

static void send_tensors(void *arg)
{
    own_rank = *(const uint32_t *)arg;
    struct checkpoint_transfer *transfer;
    assert_int_equal(checkpoint_transfer_open(&transfer, NULL, 1, total), 0);
    const struct checkpoint_sink sink = checkpoint_transfer_sink(transfer);
    int rc = 0;
    for (int checkpoint = 0; checkpoint < 2; checkpoint++)
        for (uint32_t i = 0; i < TENSORS && rc == 0; i++) {
            const bool is_broken = own_rank == 2 && i == broken && checkpoint == 0;
            rc = sink.put(sink.arg, data_of(own_rank, i), sizes[i], is_broken ? error_of_rank_2 : 0);
            if (rc == 0 && i >= TENSORS - 2)
                rc = sink.flush(sink.arg);
        }
    assert_int_equal(rc, has_failed ? -ECANCELED : 0);
    checkpoint_transfer_close(transfer);
}

/* Rank 0 takes all but the last tensor of each rank, and then these, as the layout has what is carried last. The error
 * is that of the broken tensor and of those that share a part with it: the second one begins in the first one's part.
 * Returns the first error. */
static int take_all(const struct checkpoint_source *source, unsigned char *out, int error)
{
    int rc = 0;
    for (uint32_t i = 0; i < 2 * TENSORS; i++) {
        const uint32_t rank = i < 2 * (TENSORS - 1) ? 1 + i / (TENSORS - 1) : i - 2 * (TENSORS - 1) + 1;
        const uint32_t which = i < 2 * (TENSORS - 1) ? i % (TENSORS - 1) : TENSORS - 1;
        const int taken = source->take(source->arg, rank, out, sizes[which]);
        if (taken == 0)
            assert_memory_equal(out, data_of(rank, which), sizes[which]);
        if (rank == 2 && (which == broken || (which == 1 && broken == 0)))
            assert_int_equal(taken, error);
        rc = rc != 0 ? rc : taken;
    }
    return rc;
}

static void run(int error)
{
    static uint32_t numbers[RANKS] = { 0, 1, 2 };
    struct thread *threads[RANKS];
    struct checkpoint_transfer *transfer;
    open_tensor();
    unsigned char *const out = malloc(sizes[1]);
    error_of_rank_2 = error;
    has_failed = false;
    assert_int_equal(checkpoint_transfer_open(&transfer, NULL, 1, total), 0);
    const struct checkpoint_source source = checkpoint_transfer_source(transfer);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        assert_int_equal(thread_start(&threads[rank], "rank", send_tensors, &numbers[rank]), 0);
    assert_int_equal(take_all(&source, out, error), error);
    assert_int_equal(take_all(&source, out, 0), 0);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        thread_join(threads[rank]);
    assert_true(longest <= CHECKPOINT_TRANSFER_PART_BYTES + 64);
    checkpoint_transfer_close(transfer);
    free(out);
    free(tensor);
}

TEST(tensors_arrive_whole_whatever_their_size)
{
    run(0);
}

TEST(an_error_of_any_tensor_arrives_and_the_next_checkpoint_is_whole)
{
    for (broken = 0; broken < TENSORS; broken++)
        run(-EIO);
}

TEST(a_failure_ends_all_waits)
{
    static uint32_t one = 1;
    struct thread *thread;
    struct checkpoint_transfer *transfer;
    open_tensor();
    has_failed = false;
    assert_int_equal(thread_start(&thread, "rank", send_tensors, &one), 0);
    assert_int_equal(checkpoint_transfer_open(&transfer, NULL, 1, total), 0);
    const struct checkpoint_source source = checkpoint_transfer_source(transfer);
    unsigned char *const out = malloc(sizes[1]);
    assert_int_equal(source.take(source.arg, 1, out, 1), 0);
    pthread_mutex_lock(&lock);
    has_failed = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    thread_join(thread);
    assert_int_equal(source.take(source.arg, 1, out, sizes[1]), -ECANCELED);
    checkpoint_transfer_close(transfer);
    free(out);
    free(tensor);
}

TEST(decisions_are_those_of_rank_0)
{
    struct checkpoint_transfer *lead, *other;
    has_failed = false;
    assert_int_equal(checkpoint_transfer_open(&lead, NULL, 1, 0), 0);
    checkpoint_transfer_decide(lead, 7, true);
    checkpoint_transfer_decide(lead, 9, false);
    for (own_rank = 1; own_rank < RANKS; own_rank++) {
        assert_int_equal(checkpoint_transfer_open(&other, NULL, 1, 0), 0);
        assert_true(checkpoint_transfer_await(other, 7));
        assert_false(checkpoint_transfer_await(other, 9));
        checkpoint_transfer_close(other);
    }
    own_rank = 1;
    assert_int_equal(checkpoint_transfer_open(&other, NULL, 1, 0), 0);
    has_failed = true;
    assert_false(checkpoint_transfer_await(other, 11));
    own_rank = 0;
    checkpoint_transfer_close(other);
    checkpoint_transfer_close(lead);
}

/* One transfer answers all questions that are still to come, and is received once. */
TEST(nobody_waits_for_decisions_after_the_last_one)
{
    struct checkpoint_transfer *lead, *other;
    has_failed = false;
    assert_int_equal(checkpoint_transfer_open(&lead, NULL, 1, 0), 0);
    checkpoint_transfer_give_up(lead);
    checkpoint_transfer_give_up(lead);
    checkpoint_transfer_decide(lead, 5, true);
    own_rank = 1;
    assert_int_equal(checkpoint_transfer_open(&other, NULL, 1, 0), 0);
    assert_false(checkpoint_transfer_await(other, 3));
    assert_false(checkpoint_transfer_await(other, 4));
    assert_null(boxes[0][1][MESSAGE_DECISION]);
    own_rank = 0;
    checkpoint_transfer_close(other);
    checkpoint_transfer_close(lead);
}

TESTS_MAIN(NULL, NULL)
