/* What the observers of a run are told: the run, and what a row of metrics.jsonl is made of. */
#ifndef PIPETRAIN_OBSERVATION_H
#define PIPETRAIN_OBSERVATION_H

#include "loader/loader.h"
#include "tools/checkpoint/saver.h"
#include "tools/run/account.h"
#include "tools/run/pace/feed.h"
#include "tools/run/run_plan.h"

/* All lent until nothing observes any more. */
struct observed_run {
    const struct settings *settings;
    const struct run_plan *plan;
    const struct net *net;
    const struct dataset *const *datasets;      /* of every pass; NULLs where there are none */
    const char *directory;      /* NULL: nothing is written */
    const struct checkpoint_counts *saves;      /* of states, up to now */
};

struct observation {
    enum pass pass;
    uint32_t epoch;             /* counted from 1 */
    uint64_t step;              /* training steps of the run that are done */
    const struct tally *tally;  /* of the pass, or of training since the row before; lent */
    const struct account *account;              /* of the run up to now; lent */
    const struct loader_counts *loader;         /* the loader's, up to now; lent */
    struct loader_busy busy;    /* of training since the row before */
    double loss, accuracy;      /* NAN where there is none */
    double learning_rate;       /* of the latest training step */
    double gradient_norm;       /* of its mean gradients; NAN: it is not known */
};

#endif
