/* The thread that saves states while training goes on. It takes the snapshots of a state, gives them back as soon as
 * they are copied, and writes the copy. One state may wait while another one is written; a third makes the caller
 * wait. A state that cannot be written is told on stderr, and the run goes on with those there are. */
#ifndef PIPETRAIN_CHECKPOINT_SAVER_H
#define PIPETRAIN_CHECKPOINT_SAVER_H

#include "tools/checkpoint/writer.h"

struct checkpoint_saver;

struct checkpoint_saver_spec {
    struct checkpoint_writer *writer;           /* lent until checkpoint_saver_end, as is all of this */
    struct run_directory *directory;
    uint32_t towers, keep;
    void (*give_back)(void *arg, uint32_t tower, struct snapshot *snapshot);    /* from the thread */
    void *arg;
};

/* 0, -ENOMEM or -EAGAIN. */
int checkpoint_saver_start(struct checkpoint_saver **saver_out, const struct checkpoint_saver_spec *spec);
/* A complete snapshot of every tower, which are lent until they are given back. Waits while another state waits. */
void checkpoint_saver_put(struct checkpoint_saver *saver, struct snapshot *const *snapshots,
                          const struct checkpoint_mark *mark);
/* What was put is written, and the thread is no more. Accepts NULL. */
void checkpoint_saver_end(struct checkpoint_saver *saver);

#endif
