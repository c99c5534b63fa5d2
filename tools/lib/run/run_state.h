/* The checkpoints that a run saves, and the one from which it is resumed (doc/checkpoints.md); the initial weights of a
 * new run. Used by main only.
 *
 * In a run of several processes rank 0 finds the checkpoint and writes all files. It sends the other ranks the position
 * at which the run starts and the checkpoint, and they send it snapshots of their towers (checkpoint_transfer.h). All ranks call the same
 * functions in the same order, except for functions of rank 0 only. */
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
    uint64_t step;              /* step of the checkpoint */
    uint64_t failed_step;       /* completed steps when NaN or Inf appeared */
    struct run_progress progress;       /* as it was at the failure, with this rollback already counted */
};

/* How the steps of a run ended. */
struct run_last {
    uint64_t next;              /* the batch after the last one that was passed to run_state_follow */
    bool can_be_taken;          /* the towers are in a consistent state after that batch */
    bool was_asked_for;         /* a signal asked the run to stop */
};

struct run_state {                      /* all 0 at first, except `back` and `ranks` */
    const struct run_back *back;        /* borrowed; NULL: no rollback */
    struct ranks *ranks;                /* borrowed; NULL: one process */
    struct run_identity identity;       /* in rank 0 */
    struct checkpoint_reader *reader;   /* the checkpoint to resume from; NULL: the run is new */
    char folder[PATH_MAX];              /* the directory of the resumed run; "": the run has a new one */
    struct run_past past;
    /* Up to the latest completed batch; set by run_state_find, then by the caller. */
    struct run_progress progress;
    bool is_over;               /* the run to be resumed has already done all its steps */
    bool has_begun;             /* run_state_follow was called */
    bool keeps_best;            /* the checkpoint of the best evaluation is kept as best.safetensors ... */
    bool keeps_weights;         /* ... or only its weights and statistics */
    /* With keeps_weights, in rank 0: the evaluation of the kept weights, as its best one, by which the next ones are
     * judged. It differs from `progress` if the weights of an earlier, better evaluation are not in the directory. */
    struct run_progress kept;
    bool saves;                 /* checkpoints are saved */
    /* Other ranks have parts of the weights (model.parts), which they send to rank 0 at the end, and with keeps_weights
     * after evaluations. Set by the caller before run_state_add_memory. */
    bool gathers_weights;
    bool has_last;              /* the checkpoint of the last step was prepared, and still has its temporary name */
    int last_rc;                /* the result of preparing it; -EDOM: `broken` is not finite */
    uint64_t last_ns;           /* the time that preparing it took */
    const char *broken;
    bool only_on_stop;          /* checkpoints are saved only if the run ends before its last step */
    bool needs_none;            /* only_on_stop, and the run has done its last step */
    struct checkpoint_writer *writer;   /* NULL: this process does not write */
    struct checkpoint_sender *sender;   /* NULL: this process does not send */
    struct checkpoint_sender *weights_sender;       /* with gathers_weights in ranks other than 0; else NULL */
    struct checkpoint_transfer *transfer;           /* NULL: nothing that is saved has data of other ranks */
    struct checkpoint_saver *saver;     /* NULL: only the last checkpoint may be saved, by main */
    struct checkpoint_counts counts;    /* of this process, at the latest completed batch or later */
    uint64_t period_ns, saved_ns;       /* time between two checkpoints (0: not set), and when the latest one was
                                         * requested or saved */
    bool is_asked;                      /* requested snapshots are not reported yet */
    struct snapshot **snapshots;        /* [tower of this process] */
    uint32_t snapshot_count;            /* towers that make snapshots: those with the lowest numbers ... */
    uint32_t best_count;                /* and those that make snapshots of evaluations */
    struct pipeline *pipeline;          /* borrowed until run_state_finish */
    const struct run_plan *plan;        /* this and the members below are borrowed from run_state_open on */
    const struct account *account;
    struct run_directory *directory;
    struct weights *weights;            /* borrowed; NULL in other ranks */
};

/* ---- where the run starts ---- */

/* Find the checkpoint to resume from, according to run.resume, and set plan->schedule.first. 0, or an exit code after
 * messages: the requested checkpoint does not fit, or none is intact. If state->is_over, the run is already complete.
 * Called by all ranks: ranks other than 0 wait for the result of rank 0, return its exit code without a message, and
 * receive a copy of the checkpoint in memory; an exit code after a message if they cannot. */
int run_state_find(struct run_state *state, const struct settings *settings, struct run_plan *plan,
                   const struct dataset *const *datasets);
/* The text by which a later run recognizes this one if it has no checkpoint. NULL if the same command is to train
 * again, because the run does not train on data, or only tests whether data can be learnt. Borrowed. */
const char *run_state_identity(const struct run_state *state, const struct settings *settings,
                               const struct run_plan *plan);
/* The directory of the resumed run; NULL: the run has a new one. */
const struct run_past *run_state_past(const struct run_state *state);
/* Load the checkpoint, if there is one, into the towers and the account. 0, or an exit code after a message. */
int run_state_restore(struct run_state *state, const struct run_plan *plan, struct pipeline *pipeline,
                      struct account *account);
/* Rank 0 only, after a failure and run_state_finish: can the run roll back to one of its checkpoints, and is another
 * rollback permitted? *back_out then describes the newest checkpoint, or the one before that of the latest rollback if
 * the run did not get further than last time. Otherwise the reason is printed. */
bool run_state_go_back(const struct run_state *state, struct run_back *back_out);

/* Open model.weights, and check that it fits the network. Settings and net are borrowed; where the configuration leaves
 * settings open, they are set as the weights say (tools/lib/results/weights_agree.h). *weights_out is unchanged if the
 * key is empty. 0, or an exit code after all messages. */
int run_weights_open(struct initial_weights **weights_out, struct settings *settings, struct net *net);
/* Read all weights, as run_weights_write does. 0, or an exit code after a message. */
int run_weights_check(const struct initial_weights *weights);
/* Load the weights into all towers. 0, or an exit code after a message. */
int run_weights_write(const struct initial_weights *weights, struct pipeline *pipeline, const struct run_plan *plan);

/* ---- saving ---- */

/* run_state_rule: the batches after which towers make snapshots for checkpoints (all 0: never), the same in all ranks.
 * run_state_file_bytes: the approximate size of a checkpoint file; 0 in ranks that do not write any. */
struct snapshot_rule run_state_rule(const struct run_state *state, const struct settings *settings,
                                    const struct run_plan *plan);
/* The same for snapshots of what evaluations computed with, for the best weights. */
struct snapshot_rule run_state_best_rule(const struct run_state *state);
/* The parts of parameters that towers have. */
struct checkpoint_parts run_state_parts(const struct run_plan *plan, const struct settings *settings,
                                        const struct net *net);
size_t run_state_file_bytes(const struct run_state *state, const struct settings *settings,
                            const struct run_plan *plan, const struct net *net);
/* Add the host memory that saving needs to the plan. */
void run_state_add_memory(const struct run_state *state, const struct settings *settings, struct run_plan *plan,
                          const struct net *net);
/* Half of the disk space that checkpoints need in addition to existing files: the directory asks for twice as much. */
uint64_t run_state_room(const struct run_state *state, const struct settings *settings, size_t state_bytes);
/* Allocate the memory for saving and, if checkpoints are saved during training, start the thread that saves them. In
 * ranks other than 0 `results` has no directory and no weights. 0 or a negative errno. */
int run_state_open(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                   struct pipeline *pipeline, struct account *account, const struct results *results);
/* Does best.safetensors of this run exist in its directory? */
bool run_state_has_best(const struct run_state *state);
/* Called after each global batch, when it is in the account, with the reports of at least the towers of this process:
 * saves a checkpoint if the towers made snapshots. Other ranks send their reports to rank 0 before they call it, and in
 * it wait for rank 0's call. */
void run_state_follow(struct run_state *state, struct step_report *const *reports);
/* Rank 0 only, after a failure that is not sent to the other ranks, which end as usual: no checkpoint is saved any
 * more, so the other ranks do not wait for rank 0's calls. */
void run_state_give_up(struct run_state *state);
/* Called after the steps: wait until all checkpoints and best weights that were due are saved; the memory of
 * results->weights is free again. */
void run_state_settle(struct run_state *state);
/* With gathers_weights, called by all ranks after run_state_settle, with the number of batches and the towers of this
 * process, unless the run has failed: rank 0 says whether it saves the weights (is_saved, of rank 0), and then the other
 * ranks wait until it has received those of their towers. */
void run_state_send_weights(struct run_state *state, uint64_t next, bool is_saved, struct tower *const *towers);
/* Called after the steps and before the pipeline is closed, also after a failure. Calls run_state_settle, and writes
 * that of the last step under a temporary name, unless it is impossible (the run failed, or did no step) or not needed.
 * The towers may lose their weights. If it is possible, other ranks wait for rank 0's call. */
void run_state_finish(struct run_state *state, const struct settings *settings, const struct run_last *last);
/* Rename the checkpoint of the last step from its temporary name, after all other results are written: a run with its
 * last checkpoint is complete. 0, also if there is none; or an exit code after a message, also if the best weights
 * could not be saved. */
int run_state_write_last(struct run_state *state, const struct settings *settings);
/* Print lines of the plan: where the run starts, unless at its beginning, and the effect of a signal. */
void run_state_print(const struct run_state *state, const struct run_plan *plan, FILE *out);
void run_state_release(struct run_state *state);

/* ---- the account as text, in the metadata of checkpoints ---- */

#define ACCOUNT_TEXT_BYTES 2048u        /* enough for any account */

/* Write the numbers, separated by blanks; doubles as the shortest decimals that are read as the same number. Both
 * functions are pure. */
void account_text_write(const struct account_state *state, char text_out[ACCOUNT_TEXT_BYTES]);
/* 0, or -EINVAL if the text is invalid or contains impossible numbers: more correct answers than images. */
int account_text_read(struct account_state *state_out, const char *text);

#endif
