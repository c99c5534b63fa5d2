/* Sends a process' part of a checkpoint. Called by main or by the thread that saves. */
#include "tools/lib/results/checkpoint_sender.h"

#include <errno.h>
#include <stdlib.h>

struct checkpoint_sender {
    struct checkpoint_shape shape;
    struct checkpoint_sink sink;
    struct checkpoint_layout layout;    /* of all towers */
    void *data;                         /* buffer for a piece that has none in its tower */
};

/* The largest number of bytes of a piece that is converted to memory of ours. */
static size_t room_bytes(const struct checkpoint_shape *shape, const struct checkpoint_layout *layout)
{
    size_t most = 0;
    for (uint32_t i = 0; i < layout->piece_count; i++) {
        const struct checkpoint_piece *const piece = &layout->pieces[i];
        if (checkpoint_is_here(shape, piece->place.tower) && !checkpoint_has_room(shape, piece->place) &&
            piece->bytes > most)
            most = piece->bytes;
    }
    return most;
}

static size_t total_bytes(const struct checkpoint_shape *shape, const struct checkpoint_layout *layout)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < layout->piece_count; i++)
        bytes += checkpoint_is_here(shape, layout->pieces[i].place.tower) ? layout->pieces[i].bytes : 0;
    return bytes;
}

size_t checkpoint_sender_bytes(const struct checkpoint_shape *shape)
{
    struct checkpoint_layout layout;
    if (checkpoint_layout_open(&layout, shape) != 0)
        return 0;
    const size_t bytes = sizeof(struct checkpoint_sender) + checkpoint_layout_bytes(shape) + room_bytes(shape, &layout);
    checkpoint_layout_close(&layout);
    return bytes;
}

size_t checkpoint_sender_total(const struct checkpoint_shape *shape)
{
    struct checkpoint_layout layout;
    if (checkpoint_layout_open(&layout, shape) != 0)
        return 0;
    const size_t bytes = total_bytes(shape, &layout);
    checkpoint_layout_close(&layout);
    return bytes;
}

int checkpoint_sender_open(struct checkpoint_sender **sender_out, const struct checkpoint_shape *shape,
                           const struct checkpoint_sink *sink)
{
    struct checkpoint_sender *const sender = calloc(1, sizeof(*sender));
    if (sender == NULL)
        return -ENOMEM;
    sender->shape = *shape;
    sender->sink = *sink;
    int rc = checkpoint_layout_open(&sender->layout, shape);
    if (rc == 0) {
        sender->data = calloc(1, room_bytes(shape, &sender->layout) + 1);
        rc = sender->data == NULL ? -ENOMEM : 0;
    }
    if (rc != 0) {
        checkpoint_sender_close(sender);
        return rc;
    }
    *sender_out = sender;
    return 0;
}

void checkpoint_sender_close(struct checkpoint_sender *sender)
{
    if (sender == NULL)
        return;
    free(sender->data);
    checkpoint_layout_close(&sender->layout);
    free(sender);
}

static bool is_ours(const struct checkpoint_sender *sender, uint32_t i)
{
    return i < sender->layout.piece_count && checkpoint_is_here(&sender->shape, sender->layout.pieces[i].place.tower);
}

/* Send piece `i`, which is at `data` unless it could not be converted. */
static int put_piece(struct checkpoint_sender *sender, uint32_t i, const void *data, int error)
{
    const struct checkpoint_sink *const sink = &sender->sink;
    const int rc = sink->put(sink->arg, data, sender->layout.pieces[i].bytes, error);
    return rc == 0 && !is_ours(sender, i + 1) ? sink->flush(sink->arg) : rc;
}

/* If a piece cannot be converted, the others are still sent, because the receiver waits for every piece. */
int checkpoint_sender_send(struct checkpoint_sender *sender, struct snapshot *const *snapshots)
{
    int rc = 0;
    for (uint32_t i = 0; i < sender->layout.piece_count && rc == 0; i++) {
        const struct checkpoint_place place = sender->layout.pieces[i].place;
        if (!is_ours(sender, i))
            continue;
        void *const room = checkpoint_room(&sender->shape, place, snapshots);
        void *const data = room != NULL ? room : sender->data;
        rc = put_piece(sender, i, data, checkpoint_take(&sender->shape, place, snapshots, data));
    }
    return rc;
}

int checkpoint_sender_send_towers(struct checkpoint_sender *sender, struct tower *const *towers)
{
    int rc = 0;
    for (uint32_t i = 0; i < sender->layout.piece_count && rc == 0; i++)
        if (is_ours(sender, i))
            rc = put_piece(sender, i, sender->data,
                           checkpoint_read(&sender->shape, sender->layout.pieces[i].place, towers, sender->data));
    return rc;
}
