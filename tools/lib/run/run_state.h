/* The checkpoints that a run saves, and the one it is resumed from (doc/checkpoints.md); the weights that a new run
 * starts with. Used by main only.
 *
 * In a run of several processes rank 0 finds the checkpoint and writes all; the others receive from it where the run starts,
 * and send it snapshots of their towers (checkpoint_transfer.h). All of them call the same functions in the same order, as far
 * as these are not of rank 0 only. */
#ifndef PIPETRAIN_RUN_STATE_H
#define PIPETRAIN_RUN_STATE_H

#include <limits.h>

#include "tools/lib/results/checkpoint_reader.h"
#include "tools/lib/results/checkpoint_writer.h"
#include "tools/lib/results/initial_weights.h"
#include "tools/lib/results/results.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/pipeline.h"
#include "tools/lib/run/ranks/checkpoint_transfer.h"
#include "tools/lib/run/run_identity.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/run_progress.h"

/* A rollback: the same process returns to a checkpoint of the run (train.on_nan = rollback). May be sent as bytes. */
struct run_back {
    char folder[PATH_MAX];      /* the run's directory; "" = no rollback */
    uint64_t step;              /* of the checkpoint */
    uint64_t failed_step;       /* steps that were done when NaN or Inf appeared */
    struct run_progress progress;       /* at that time, with the number of rollbacks including this one */
};

/* How the steps of a run ended. */
struct run_last {
    uint64_t next;              /* the batch after the last one that was followed */
    bool can_be_taken;          /* the towers are in a complete state after it */
    bool was_asked_for;         /* by a signal */
};

struct run_state {                      /* all 0 at first, except `back` and `ranks` */
    const struct run_back *back;        /* borrowed; NULL: no rollback */
    struct ranks *ranks;                /* borrowed; NULL: one process */
    struct run_identity identity;       /* in rank 0 */
    struct checkpoint_reader *reader;   /* the checkpoint to resume from; NULL: the run is new */
    char folder[PATH_MAX];              /* the directory of the run that is resumed; "" = a new one */
    struct run_past past;
    struct run_progress progress;       /* up to the last batch followed; set by run_state_find, then by the caller */
    bool is_over;               /* the run to be resumed has already done all its steps */
    bool has_begun;             /* a batch was followed */
    bool keeps_best;            /* the checkpoint of the best evaluation is kept as best.safetensors */
    bool saves;                 /* checkpoints are saved */
    bool has_last;              /* the checkpoint of the last step was prepared, and does not have its name yet */
    int last_rc;                /* the result of preparing it; -EDOM: `broken` is not finite */
    uint64_t last_ns;           /* the time it took */
    const char *broken;
    bool only_on_stop;          /* checkpoints are saved only if the run ends before its last step */
    bool needs_none;            /* and it has done its last step */
    struct checkpoint_writer *writer;   /* NULL: this process does not write */
    struct checkpoint_sender *sender;   /* NULL: nor does it send */
    struct checkpoint_transfer *transfer;           /* NULL: checkpoints contain nothing of other ranks */
    struct checkpoint_saver *saver;     /* NULL: only the last checkpoint may be saved, by main */
    struct checkpoint_counts counts;    /* of this process, as of the last batch followed or later */
    uint64_t period_ns, saved_ns;       /* time between two checkpoints (0 = not by time), and of the last one */
    bool is_asked;                      /* snapshots have been requested that are not reported yet */
    struct snapshot **snapshots;        /* room for one of each tower of this process */
    uint32_t snapshot_count;            /* of these towers: the first ones, which make them */
    struct pipeline *pipeline;          /* borrowed until run_state_finish */
    const struct run_plan *plan;        /* this and what follows is borrowed from run_state_open on */
    const struct account *account;
    struct run_directory *directory;
};

/* ---- where the run starts ---- */

/* Find the checkpoint to resume from, as run.resume says, and set plan->schedule.first. 0, or an exit code after
 * messages: the checkpoint asked for does not fit, or none is intact. If state->is_over nothing is left to do. All
 * ranks call it: those that are not 0 wait for what rank 0 finds, return its exit code without a message, and open the
 * same checkpoint; EXIT_CODE_DATA after a message if they cannot. */
int run_state_find(struct run_state *state, const struct settings *settings, struct run_plan *plan,
                   const struct dataset *const *datasets);
/* The text by which a later run recognizes this one without a checkpoint. NULL where the same command is to train
 * again: the run does not train on data, or tests whether that can be learnt. Borrowed. */
const char *run_state_identity(const struct run_state *state, const struct settings *settings,
                               const struct run_plan *plan);
/* The directory that is resumed; NULL: the run has a new one. */
const struct run_past *run_state_past(const struct run_state *state);
/* Load the checkpoint, if there is one, into the towers and the account. 0, or an exit code after a message. */
int run_state_restore(struct run_state *state, const struct run_plan *plan, struct pipeline *pipeline,
                      struct account *account);
/* Rank 0 only, after a failure and run_state_finish: can the run roll back to one of its checkpoints, and may it once
 * more? *back_out is then the newest one, or the one before the last rollback's if the run did not get further than the
 * last time. Otherwise the reason is printed. */
bool run_state_go_back(const struct run_state *state, struct run_back *back_out);

/* Open model.weights, and check that it fits the network; both arguments are borrowed, and get what the weights say and
 * the configuration does not (tools/lib/results/weights_agree.h). *weights_out is unchanged if the key is empty. 0, or
 * an exit code after all messages. */
int run_weights_open(struct initial_weights **weights_out, struct settings *settings, struct net *net);
/* Read all of them, as run_weights_write would. 0, or an exit code after a message. */
int run_weights_check(const struct initial_weights *weights);
/* Load them into all towers. 0, or an exit code after a message. */
int run_weights_write(const struct initial_weights *weights, struct pipeline *pipeline, const struct run_plan *plan);

/* ---- saving ---- */

/* After which batches the towers make snapshots for checkpoints (all 0: none are saved), the same in all ranks; and
 * roughly the size of a checkpoint file, 0 in ranks that do not write any. */
struct snapshot_rule run_state_rule(const struct run_state *state, const struct settings *settings,
                                    const struct run_plan *plan);
size_t run_state_file_bytes(const struct run_state *state, const struct settings *settings,
                            const struct run_plan *plan, const struct net *net);
/* Add the host memory that saving needs to the plan. */
void run_state_add_memory(const struct run_state *state, const struct settings *settings, struct run_plan *plan,
                          const struct net *net);
/* Half of the disk space that checkpoints need in addition to existing files: the directory asks for twice as much. */
uint64_t run_state_room(const struct run_state *state, const struct settings *settings, size_t state_bytes);
/* Allocate what saving needs and, if checkpoints are saved during training, start the thread that saves them. In ranks
 * other than 0 `results` has no directory and no weights. 0 or a negative errno. */
int run_state_open(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                   struct pipeline *pipeline, struct account *account, const struct results *results);
/* Does best.safetensors exist in the run's directory? */
bool run_state_has_best(const struct run_state *state);
/* To be called after each global batch, when it is in the account, with the reports of at least the towers of this
 * process: saves a checkpoint if the towers made snapshots. Other ranks send their reports to rank 0 before they call
 * it, and wait in it for rank 0's call. */
void run_state_follow(struct run_state *state, struct step_report *const *reports);
/* Rank 0 only, after a failure that is not sent to the other ranks, which end as usual: nothing is saved any more, so
 * they do not wait for rank 0's calls. */
void run_state_give_up(struct run_state *state);
/* The steps are done: wait until checkpoints are saved, and write that of the last step under a temporary name,
 * unless it cannot be had (the run failed, or did no step) or is not needed. The towers may lose their weights. To be
 * called before the pipeline is closed, also after a failure. Other ranks wait for rank 0's call, if it can be had. */
void run_state_finish(struct run_state *state, const struct settings *settings, const struct run_last *last);
/* Give that checkpoint its name, after all other results: a run with its last checkpoint is complete. 0, also where
 * there is none; or an exit code after a message. */
int run_state_write_last(struct run_state *state, const struct settings *settings);
/* Lines of the plan: where the run starts, unless at its beginning, and what a signal does. */
void run_state_print(const struct run_state *state, const struct run_plan *plan, FILE *out);
void run_state_release(struct run_state *state);

/* ---- the account as text, in the metadata of checkpoints ---- */

#define ACCOUNT_TEXT_BYTES 1536u        /* enough for any account */

/* Numbers separated by blanks; doubles are the shortest decimals that read back as themselves. Pure functions. */
void account_text_write(const struct account_state *state, char text_out[ACCOUNT_TEXT_BYTES]);
/* 0, or -EINVAL when the text has another form or contains impossible numbers: more correct answers than images. */
int account_text_read(struct account_state *state_out, const char *text);

#endif
