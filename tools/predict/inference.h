/* One tower that only evaluates, and what brings batches to it: ring -> feeder -> slots -> tower. Whoever has samples
 * fills the ring; the tower computes in main's thread, which takes the logits. Used by main only. */
#ifndef PIPETRAIN_INFERENCE_H
#define PIPETRAIN_INFERENCE_H

#include "compute/net.h"
#include "stage/ring.h"
#include "stage/stop.h"
#include "tools/config/settings.h"
#include "tools/results/initial_weights.h"
#include "tools/run/run_plan.h"

struct inference;

struct inference_parts {                /* all lent until inference_close */
    const struct settings *settings;    /* of one tower */
    struct run_plan *plan;              /* evaluates only; inference_open adds the tower to its memory */
    const struct net *net;
    const struct initial_weights *weights;
    struct stop *stop;
};

/* A batch that went through the tower; valid until the next one. */
struct inference_batch {
    struct batch_slice slice;
    const uint64_t *ids;                /* slice.count, as whoever filled the ring numbered the samples */
    const int32_t *labels;              /* BATCH_NO_LABEL: no sample, or none that is known */
    const float *logits;                /* slice.count x net->classes */
    struct backend_result result;
};

/* Open the device and plan the tower for the slices of plan->schedule; what memory that takes is checked, and nothing
 * large is taken. 0, or an exit code after a message. */
int inference_open(struct inference **inference_out, const struct inference_parts *parts);
/* Take the memory, write the weights, and let batches come. 0, or an exit code after a message. */
int inference_begin(struct inference *inference);
/* What is to be filled, with the batches of plan->schedule. After inference_begin. */
struct ring *inference_ring(struct inference *inference);
/* The next batch, waiting for it. 0; -ENODATA behind the last one of the ring's range; -ECANCELED after a failure, with
 * the cause in stop, or after inference_end. */
int inference_next(struct inference *inference, struct inference_batch *batch_out);
/* Every wait ends now, also of whoever fills the ring. Any thread; fits signals_set_callback. */
void inference_end(void *inference);
/* Whoever fills the ring does so no more. Accepts NULL. */
void inference_close(struct inference *inference);

#endif
