/* What the observers of a run are told: what a row of metrics.jsonl is made of. */
#ifndef PIPETRAIN_OBSERVATION_H
#define PIPETRAIN_OBSERVATION_H

#include "loader/loader.h"
#include "tools/run/account.h"

struct observation {
    enum pass pass;
    uint32_t epoch;             /* counted from 1 */
    uint64_t step;              /* training steps of the run that are done */
    const struct tally *tally;  /* of the pass, or of training since the row before; lent */
    const struct account *account;              /* of the run up to now; lent */
    const struct loader_counts *loader;         /* the loader's, up to now; lent */
    double loss, accuracy;      /* NAN where there is none */
    double learning_rate;       /* of the latest training step */
};

#endif
