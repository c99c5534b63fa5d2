/* Sending the towers of this process to the one that writes checkpoints, where a checkpoint_source receives them
 * (checkpoint_writer.h). */
#ifndef PIPETRAIN_CHECKPOINT_SENDER_H
#define PIPETRAIN_CHECKPOINT_SENDER_H

#include "tools/lib/results/checkpoint_format.h"

struct checkpoint_sender;

/* Where tensors go. Functions return 0, or a negative errno after which nothing more can be sent. */
struct checkpoint_sink {
    /* The next tensor of this process. `error` is 0, or a negative errno: the tensor could not be converted, and the
     * data have no meaning. */
    int (*put)(void *arg, const void *data, size_t bytes, int error);
    /* The receiver waits for all tensors put so far: the next one of the file is another process's, or there is
     * none. */
    int (*flush)(void *arg);
    void *arg;
};

/* An upper limit of the memory that opening allocates. */
size_t checkpoint_sender_bytes(const struct checkpoint_shape *shape);
/* What this process sends of every checkpoint. */
size_t checkpoint_sender_total(const struct checkpoint_shape *shape);
/* The shape is the writer's, but for `here`. 0 or -ENOMEM. */
int checkpoint_sender_open(struct checkpoint_sender **sender_out, const struct checkpoint_shape *shape,
                           const struct checkpoint_sink *sink);
/* Accepts NULL. */
void checkpoint_sender_close(struct checkpoint_sender *sender);
/* Send a complete snapshot of every tower of this process, in the order of the towers. Allocates nothing; blocks as the
 * sink does. Afterwards the snapshots may be returned. 0, or a negative errno of the sink. */
int checkpoint_sender_send(struct checkpoint_sender *sender, struct snapshot *const *snapshots);

#endif
