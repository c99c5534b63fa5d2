/* The thread that saves states while training goes on. It takes the snapshots of a state, gives them back as soon as
 * they are copied, and writes the copy. One state may wait while another one is written; a third makes the caller
 * wait. A state that cannot be written is told on stderr, and the run goes on with those there are. */
#ifndef PIPETRAIN_CHECKPOINT_SAVER_H
#define PIPETRAIN_CHECKPOINT_SAVER_H

#include "tools/checkpoint/writer.h"

struct checkpoint_saver;

/* How saving went so far. */
struct checkpoint_counts {
    uint64_t saved, failures;   /* states */
    uint64_t latest_ns;         /* the latest one that was saved took, from the towers' snapshots to the disk */
};

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
/* Of all that was put and is written by now. Accepts NULL: then it stays as it is. */
void checkpoint_saver_count(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out);
/* A state was written, in that time, or was not. */
void checkpoint_counts_add(struct checkpoint_counts *counts, int rc, uint64_t took_ns);
/* What was put is written and counted, and the thread is no more. Accepts NULL. */
void checkpoint_saver_end(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out);

#endif
