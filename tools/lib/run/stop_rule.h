/* The reasons to stop a run before its last step: the settings ask for it (train.stop_at, train.patience,
 * train.max_time), or numbers are not finite. Checked after every batch. Used by main only; allocates nothing. */
#ifndef PIPETRAIN_STOP_RULE_H
#define PIPETRAIN_STOP_RULE_H

#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "sync/trainer.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/run_progress.h"

enum stop_reason {
    STOP_REASON_NONE,
    STOP_REASON_STOP_AT,
    STOP_REASON_PATIENCE,
    STOP_REASON_MAX_TIME,
    STOP_REASON_COUNT
};

/* Pure functions. */

/* Does one of the settings depend on evaluations? Then towers wait for main's decision after each evaluation. */
bool stop_rule_needs_evaluations(const struct train_settings *train);
/* The reason to stop after the evaluations so far. A resumed run may have one before it begins. */
enum stop_reason stop_reason_of_progress(const struct train_settings *train, const struct run_progress *progress);
/* The reason to stop at a time since the program was started. */
enum stop_reason stop_reason_of_time(const struct train_settings *train, uint64_t elapsed_ns);
/* The reason's key in [train]: "stop_at". */
const char *stop_reason_key(enum stop_reason reason);
/* The reason in words: "validation accuracy 97.20 % reaches train.stop_at (97 %)"; "" for none. */
void stop_reason_describe(enum stop_reason reason, const struct train_settings *train,
                          const struct run_progress *progress, char *words, size_t words_size);

struct stop_rule {
    const struct train_settings *train;     /* lent, as are the next two members */
    struct run_progress *progress;
    const struct account *account;
    uint64_t process_start_ns;          /* on clock_now_ns's clock */
    uint32_t classes;
    bool uses_evaluations;              /* the run computes, with real labels; otherwise evaluations are meaningless */
    enum stop_reason reason;            /* why the run stops; before, STOP_REASON_NONE */
    char words[192];                    /* the reason in words */
};

/* If evaluations are meaningless, report which settings have no effect because they depend on them. */
void stop_rule_warn_unused(const struct settings *settings);
/* Called after the batch `local` was added to the account. Adds complete evaluations to the progress, and warns once if
 * the run diverges. Returns true, once, if the run stops after this batch. */
bool stop_rule_check(struct stop_rule *rule, const struct local_batch *local);

/* the most consecutive steps that may be skipped: fp16 may need so many at first */
#define NONFINITE_ROW_MAX 30u

/* Check the reports of a batch, one of each tower of the run, for NaN and Inf, before they are added to the account. A
 * skipped step is added to the progress, and the first one is reported. Stops the run (EXIT_CODE_NONFINITE) if a loss
 * or weights are not finite although the update was not skipped, if too many consecutive steps were skipped, or all
 * steps of the run. Weights are checked because a ReLU may hide their NaN from the loss. With train.on_nan = skip,
 * losses of an evaluation may be infinite, because they change no weights. */
void nonfinite_check(struct stop *stop, struct step_report *const *reports, const struct run_plan *plan,
                     const struct train_settings *train, struct run_progress *progress);
/* Called after a batch was added to the account: also stops the run after an evaluation without any finite loss. */
void nonfinite_check_evaluation(struct stop *stop, const struct account *account, const struct local_batch *local);

#endif
