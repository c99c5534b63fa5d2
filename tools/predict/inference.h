/* One tower that only evaluates, and its input: ring -> feeder -> slots -> tower. The caller's threads fill the ring;
 * the tower computes in the main thread, which reads the logits. Main thread only. */
#ifndef PIPETRAIN_INFERENCE_H
#define PIPETRAIN_INFERENCE_H

#include "compute/net.h"
#include "stage/ring.h"
#include "stage/stop.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/results/initial_weights.h"
#include "tools/lib/run/run_plan.h"

struct inference;

struct inference_spec {                 /* all borrowed until inference_close */
    const struct settings *settings;    /* of one tower */
    struct run_plan *plan;              /* for evaluation only; inference_open adds the memory of the tower */
    const struct net *net;
    const struct initial_weights *weights;
    struct stop *stop;
};

/* A batch with its results; valid until the next one. */
struct inference_batch {
    struct local_batch local;
    const uint64_t *ids;                /* local.count record ids of the ring */
    const int32_t *labels;              /* BATCH_NO_LABEL: no sample, or no known label */
    const float *logits;                /* local.count x net->classes */
    struct backend_result result;
};

/* Open the device, plan the tower for the local batches of plan->schedule, and check the memory that it needs, without
 * allocating it. 0, or an exit code after a message. */
int inference_open(struct inference **inference_out, const struct inference_spec *spec);
/* Allocate the memory, write the weights, and start the feeder. 0, or an exit code after a message. */
int inference_begin(struct inference *inference);
/* The ring to fill with the batches of plan->schedule. After inference_begin. */
struct ring *inference_ring(struct inference *inference);
/* Wait for the next batch. 0; -ENODATA after the last one; -ECANCELED after inference_end, or after a failure with its
 * cause in stop. */
int inference_next(struct inference *inference, struct inference_batch *batch_out);
/* End every wait, also those of the threads that fill the ring. Any thread; a callback for signals_set_callback. */
void inference_end(void *inference);
/* Call it after stopping the threads that fill the ring. Accepts NULL. */
void inference_close(struct inference *inference);

#endif
