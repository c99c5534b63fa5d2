/* Why a run stops before its last step: the settings ask for it (train.stop_at, train.patience, train.max_time), or
 * numbers are not finite. Checked after every batch. Used by main only; allocates nothing. */
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

/* Does one of the reasons depend on evaluations? Then towers wait after each of them for main's decision. */
bool stop_rule_needs_evaluations(const struct train_settings *train);
/* By the evaluations so far; a resumed run may be over before it begins. */
enum stop_reason stop_reason_of_progress(const struct train_settings *train, const struct run_progress *progress);
/* By the time since the program was started. */
enum stop_reason stop_reason_of_time(const struct train_settings *train, uint64_t elapsed_ns);
/* Its key in [train]: "stop_at". */
const char *stop_reason_key(enum stop_reason reason);
/* In words: "validation accuracy 97.20 % reaches train.stop_at (97 %)"; "" for none. */
void stop_reason_describe(enum stop_reason reason, const struct train_settings *train,
                          const struct run_progress *progress, char *words, size_t words_size);

struct stop_rule {
    const struct train_settings *train;     /* lent, as are the next two */
    struct run_progress *progress;
    const struct account *account;
    uint64_t process_start_ns;          /* on clock_now_ns's clock */
    uint32_t classes;
    bool uses_evaluations;              /* the run computes, with real labels: else evaluations mean nothing */
    enum stop_reason reason;            /* why the run stops; STOP_REASON_NONE so far */
    char words[192];                    /* the same in words */
};

/* Where evaluations mean nothing: name the settings that depend on them and have no effect. */
void stop_rule_warn_unused(const struct settings *settings);
/* After the batch `local` was added to the account. Adds complete evaluations to the progress and warns once of a run
 * that diverges. Returns true, once, when the run stops after this batch. */
bool stop_rule_check(struct stop_rule *rule, const struct local_batch *local);

#define NONFINITE_ROW_MAX 30u           /* steps in a row that may be skipped: fp16 may need that many at first */

/* Check the reports of a batch, one of each tower of the run, for NaN and Inf, before they are added to the account. A
 * skipped step is added to the progress; the first one is reported. Stops the run (EXIT_CODE_NONFINITE) where a loss or
 * weights are not finite and no update was skipped for it, where too many steps in a row were skipped, or all of the
 * run. Weights are checked because a ReLU may hide their NaN from the loss. With train.on_nan = skip, losses of an
 * evaluation may be infinite: they change nothing. */
void nonfinite_check(struct stop *stop, struct step_report *const *reports, const struct run_plan *plan,
                     const struct train_settings *train, struct run_progress *progress);
/* After a batch was added to the account: an evaluation without any finite loss stops the run, too. */
void nonfinite_check_evaluation(struct stop *stop, const struct account *account, const struct local_batch *local);

#endif
