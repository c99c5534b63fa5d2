/* Sends the towers of this process to the process that writes checkpoints, where a checkpoint_source receives them
 * (checkpoint_writer.h). */
#ifndef PIPETRAIN_CHECKPOINT_SENDER_H
#define PIPETRAIN_CHECKPOINT_SENDER_H

#include "tools/lib/results/checkpoint_format.h"

struct checkpoint_sender;

/* The destination of pieces. Its functions return 0, or a negative errno after which nothing more can be sent. */
struct checkpoint_sink {
    /* Send the next piece of this process. `error` is 0, or a negative errno: the piece could not be converted, and the
     * data are meaningless. */
    int (*put)(void *arg, const void *data, size_t bytes, int error);
    /* Send everything that was put so far, for which the receiver waits: the next piece of the file is another
     * process', or there is none. */
    int (*flush)(void *arg);
    void *arg;
};

/* An upper limit of the memory that opening allocates. */
size_t checkpoint_sender_bytes(const struct checkpoint_shape *shape);
/* The bytes that this process sends of every checkpoint. */
size_t checkpoint_sender_total(const struct checkpoint_shape *shape);
/* The shape equals the writer's, except for `here`. 0 or -ENOMEM. */
int checkpoint_sender_open(struct checkpoint_sender **sender_out, const struct checkpoint_shape *shape,
                           const struct checkpoint_sink *sink);
/* Accepts NULL. */
void checkpoint_sender_close(struct checkpoint_sender *sender);
/* Send complete snapshots of all towers of this process, in the order of the towers. Allocates nothing; blocks if the
 * sink does. Afterwards the snapshots may be returned. 0, or a negative errno of the sink. */
int checkpoint_sender_send(struct checkpoint_sender *sender, struct snapshot *const *snapshots);
/* The same for weights, from towers that run no steps (checkpoint_read). */
int checkpoint_sender_send_towers(struct checkpoint_sender *sender, struct tower *const *towers);

#endif
