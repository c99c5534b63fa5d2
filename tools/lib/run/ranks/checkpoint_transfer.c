/* Sends and receives decisions about checkpoints, and the parts of checkpoints, as messages. */
#include "tools/lib/run/ranks/checkpoint_transfer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The decision whether the snapshots after batch `next` - 1 are saved. next = NEVER_AGAIN: neither these nor later
 * ones. */
struct decision { uint64_t next, is_saved; };
#define NEVER_AGAIN UINT64_MAX

/* The header of a part; tensors follow. */
struct part_head { int64_t error; };    /* the errno of a tensor in the part; 0: none */

struct checkpoint_transfer {
    struct ranks *ranks;
    uint32_t towers;            /* of each rank */
    bool is_over;               /* no more checkpoints are saved; used by main */
    struct message *received;      /* rank 0: the current part; NULL: none */
    unsigned char *part;        /* other ranks: the next part, with its header */
    size_t used, room;          /* bytes used in the part, and its size */
    struct part_head head;
};

static size_t room_of(size_t total)
{
    return sizeof(struct part_head) + (total < CHECKPOINT_TRANSFER_PART_BYTES ? total : CHECKPOINT_TRANSFER_PART_BYTES);
}

/* Memory for the part, and for a copy that is being sent. */
size_t checkpoint_transfer_bytes(size_t total)
{
    return sizeof(struct checkpoint_transfer) + 2 * (sizeof(struct message) + room_of(total));
}

int checkpoint_transfer_open(struct checkpoint_transfer **transfer_out, struct ranks *ranks, uint32_t towers,
                             size_t total)
{
    struct checkpoint_transfer *const transfer = calloc(1, sizeof(*transfer));
    if (transfer == NULL)
        return -ENOMEM;
    *transfer = (struct checkpoint_transfer){ .ranks = ranks, .towers = towers, .room = room_of(total) };
    if (ranks_rank(ranks) > 0) {
        transfer->used = sizeof(transfer->head);
        transfer->part = calloc(1, transfer->room);
        if (transfer->part == NULL) {
            checkpoint_transfer_close(transfer);
            return -ENOMEM;
        }
    }
    *transfer_out = transfer;
    return 0;
}

void checkpoint_transfer_close(struct checkpoint_transfer *transfer)
{
    if (transfer == NULL)
        return;
    free(transfer->received);
    free(transfer->part);
    free(transfer);
}

/* ---- decisions ---- */

void checkpoint_transfer_decide(struct checkpoint_transfer *transfer, uint64_t next, bool is_saved)
{
    const struct decision decision = { next, is_saved };
    if (!transfer->is_over)
        (void)ranks_send_all(transfer->ranks, MESSAGE_DECISION, &decision, sizeof(decision));
}

void checkpoint_transfer_give_up(struct checkpoint_transfer *transfer)
{
    checkpoint_transfer_decide(transfer, NEVER_AGAIN, false);
    transfer->is_over = true;
}

bool checkpoint_transfer_await(struct checkpoint_transfer *transfer, uint64_t next)
{
    struct message *received;
    struct decision decision;
    if (transfer->is_over || ranks_receive(transfer->ranks, 0, MESSAGE_DECISION, &received) != 0)
        return false;
    assert(received->bytes == sizeof(decision));
    memcpy(&decision, received->data, sizeof(decision));
    free(received);
    transfer->is_over = decision.next == NEVER_AGAIN;
    assert(transfer->is_over || decision.next == next);
    (void)next;
    return decision.is_saved != 0;
}

/* ---- parts ---- */

static int request_part(struct checkpoint_transfer *transfer, uint32_t rank)
{
    int rc = ranks_send(transfer->ranks, rank, MESSAGE_CHECKPOINT, NULL, 0);
    if (rc == 0)
        rc = ranks_receive(transfer->ranks, rank, MESSAGE_CHECKPOINT, &transfer->received);
    if (rc != 0)
        return rc;
    transfer->used = sizeof(transfer->head);
    memcpy(&transfer->head, transfer->received->data, sizeof(transfer->head));
    return 0;
}

static int take(void *arg, uint32_t tower, void *out, size_t bytes)
{
    struct checkpoint_transfer *const transfer = arg;
    char *next = out;
    int rc = 0;
    while (bytes > 0) {
        const uint32_t rank = tower / transfer->towers;
        const int requested = transfer->received == NULL ? request_part(transfer, rank) : 0;
        if (requested != 0)
            return requested;
        assert(transfer->received->from == rank);
        const size_t left = transfer->received->bytes - transfer->used, count = bytes < left ? bytes : left;
        memcpy(next, transfer->received->data + transfer->used, count);
        transfer->used += count;
        next += count;
        bytes -= count;
        rc = transfer->head.error != 0 ? (int)transfer->head.error : rc;
        if (count == left) {
            free(transfer->received);
            transfer->received = NULL;
        }
    }
    return rc;
}

struct checkpoint_source checkpoint_transfer_source(struct checkpoint_transfer *transfer)
{
    return (struct checkpoint_source){ .take = take, .arg = transfer };
}

static int flush(void *arg)
{
    struct checkpoint_transfer *const transfer = arg;
    struct message *request;
    if (transfer->used == sizeof(transfer->head))
        return 0;
    const int rc = ranks_receive(transfer->ranks, 0, MESSAGE_CHECKPOINT, &request);
    if (rc != 0)
        return rc;
    free(request);
    memcpy(transfer->part, &transfer->head, sizeof(transfer->head));
    const size_t bytes = transfer->used;
    transfer->used = sizeof(transfer->head);
    transfer->head.error = 0;
    return ranks_send(transfer->ranks, 0, MESSAGE_CHECKPOINT, transfer->part, bytes);
}

static int put(void *arg, const void *data, size_t bytes, int error)
{
    struct checkpoint_transfer *const transfer = arg;
    const char *next = data;
    int rc = 0;
    while (bytes > 0 && rc == 0) {
        const size_t left = transfer->room - transfer->used, count = bytes < left ? bytes : left;
        transfer->head.error = error != 0 ? error : transfer->head.error;
        memcpy(transfer->part + transfer->used, next, count);
        transfer->used += count;
        next += count;
        bytes -= count;
        if (count == left)
            rc = flush(transfer);
    }
    return rc;
}

struct checkpoint_sink checkpoint_transfer_sink(struct checkpoint_transfer *transfer)
{
    return (struct checkpoint_sink){ .put = put, .flush = flush, .arg = transfer };
}
