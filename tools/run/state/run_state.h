/* The states that a run saves, and the one it goes on from (doc/checkpoints.md). Used by main only. */
#ifndef PIPETRAIN_RUN_STATE_H
#define PIPETRAIN_RUN_STATE_H

#include <limits.h>

#include "tools/checkpoint/reader.h"
#include "tools/checkpoint/saver.h"
#include "tools/results/results.h"
#include "tools/run/account.h"
#include "tools/run/pipeline.h"
#include "tools/run/run_plan.h"
#include "tools/run/run_progress.h"

/* Going back to a state of the same run, in the same process. */
struct run_back {
    char folder[PATH_MAX];      /* the run's directory; "" = it does not go back */
    uint64_t step;              /* that the state is behind */
    uint64_t failed_step;       /* steps that were done when the numbers were not finite */
    struct run_progress progress;       /* as it stood then, with the times it has gone back, this one among them */
};

/* How the steps of a run ended. */
struct run_last {
    uint64_t next;              /* the batch behind the last one that was followed */
    bool can_be_taken;          /* the towers are whole behind it */
    bool was_asked_for;         /* by a signal */
};

struct run_state {                      /* begins as all 0, but for `back` */
    const struct run_back *back;        /* lent; NULL: none */
    char *identity;
    struct checkpoint_reader *reader;   /* the state to go on from; NULL: the run begins */
    char folder[PATH_MAX];              /* "" = the run has a new directory; else that of the run that goes on */
    struct run_past past;
    struct run_progress progress;       /* up to the batch that is followed: kept by the caller; run_state_find begins it */
    bool is_over;               /* the run that would go on has come to its end: nothing is to be done */
    bool has_begun;             /* a batch was followed */
    bool keeps_best;            /* of the evaluations, as best.safetensors */
    bool saves;
    bool has_last;              /* the state behind the last step was taken and does not yet have its name */
    int last_rc;                /* how that went; -EDOM: `broken` is not finite in it */
    uint64_t last_ns;           /* how long it took */
    const char *broken;
    bool only_on_stop;          /* nothing is saved but where the run ends before its end */
    bool needs_none;            /* and it has come to it: nothing is left to go on with */
    struct checkpoint_writer *writer;
    struct checkpoint_saver *saver;     /* NULL: only the last state may be saved, which main does */
    struct checkpoint_counts counts;    /* of states of this process, when a batch was followed last or later */
    uint64_t period_ns, saved_ns;       /* between two states by the clock, 0 = not by it; when the last was saved */
    bool is_asked;                      /* the towers will make snapshots behind a batch that is not reported yet */
    struct snapshot **snapshots;        /* room for one of each tower */
    struct pipeline *pipeline;          /* lent until run_state_finish */
    const struct run_plan *plan;        /* lent from run_state_open on, as are these */
    const struct account *account;
    struct run_directory *directory;
};

/* Look for a state to go on from, as run.resume says; plan->schedule then begins where it is. 0, or an exit code after
 * messages: one that was asked for does not fit, or none of the saved ones is whole. state->is_over says that all is
 * done. */
int run_state_find(struct run_state *state, const struct settings *settings, struct run_plan *plan,
                   const struct dataset *const *datasets);
/* Will the run save states? Of which batches the towers make snapshots then (none: all 0), and about how many bytes a
 * state takes of the disk. */
struct snapshot_rule run_state_rule(const struct run_state *state, const struct settings *settings,
                                    const struct run_plan *plan);
size_t run_state_file_bytes(const struct run_state *state, const struct settings *settings,
                            const struct run_plan *plan, const struct net *net);
/* The host's memory that saving takes goes to the plan, and what the thread that saves takes beside it. */
void run_state_plan(const struct run_state *state, const struct settings *settings, struct run_plan *plan,
                    const struct net *net);
/* What of the disk saving needs besides what is there, halved: the directory asks for twice of it. */
uint64_t run_state_room(const struct run_state *state, const struct settings *settings, size_t state_bytes);
/* NULL: the run has a new directory. */
const struct run_past *run_state_past(const struct run_state *state);
/* Take what saving needs, and start the thread that does it beside the training, if that is to be; the pipeline is
 * planned. 0 or a negative errno. */
int run_state_open(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                   struct pipeline *pipeline, struct account *account, const struct results *results);
/* Write the state that the run goes on from to its towers, and to the account. 0, or an exit code after a message. */
int run_state_restore(struct run_state *state, const struct run_plan *plan, struct pipeline *pipeline,
                      struct account *account);
/* After a failure, and run_state_finish: can the run go back to a state that it saved, and may it once more? Then where
 * to is written: to the newest one, or where it failed before it was past where it failed the last time, to the one
 * before that which it went back to then. Else why not is told. */
bool run_state_go_back(const struct run_state *state, struct run_back *back_out);
/* The run goes on: where it keeps the best state and its directory has another one than that of the best evaluation, or
 * none, that one is the best there was; which is told, and so is a file that stays as it is. For run_state_find. */
void run_state_match_best(struct run_state *state);
/* Is there a file of the best state in the run's directory? */
bool run_state_has_best(const struct run_state *state);
/* A global batch is reported and added to the account: save the state behind it, if the towers made snapshots. */
void run_state_follow(struct run_state *state, struct step_report *const *reports);
/* The steps are done: wait until all is saved, and write the state behind the last step under a temporary name, unless
 * that is not to be had (the run failed, or did none) or not needed. The towers may lose their weights by it. Before
 * the pipeline is closed, also after a failure. */
void run_state_finish(struct run_state *state, const struct settings *settings, const struct run_last *last);
/* Let that state appear, if there is one: behind all other results, so that a run whose last state is there has all of
 * them. 0 after success or where there was none; or an exit code after a message. */
int run_state_write_last(struct run_state *state, const struct settings *settings);
/* For people: where the run begins, unless that is its beginning, and what becomes of it when it is asked to stop. */
void run_state_print(const struct run_state *state, const struct run_plan *plan, FILE *out);
void run_state_release(struct run_state *state);

#endif
