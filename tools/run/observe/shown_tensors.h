/* Histograms of a tower's weights and gradients, one of each for every parameter, under the names that they have in
 * saved states. All memory is taken when it is opened. Used by main only. */
#ifndef PIPETRAIN_SHOWN_TENSORS_H
#define PIPETRAIN_SHOWN_TENSORS_H

#include "formats/events/tfevent.h"
#include "sync/trainer.h"
#include "tools/run/observe/histogram.h"

struct shown_tensors {
    const struct net *net;      /* lent */
    float *numbers;             /* room for one parameter; NULL: nothing is shown */
    struct histogram histogram;
    double gradient_squares;    /* their sum in the report that is shown, of the mean gradients */
    uint32_t gradient_samples;  /* these are the means of so many; 0: none was put yet */
    bool is_mixed;              /* not all of so many */
};

/* Host memory that opening takes. */
size_t shown_tensors_bytes(const struct net *net);
/* 0 or -ENOMEM; shown_tensors_release after either. */
int shown_tensors_open(struct shown_tensors *tensors, const struct net *net);
void shown_tensors_release(struct shown_tensors *tensors);

/* A report with a snapshot that shows is looked at. */
void shown_tensors_begin(struct shown_tensors *tensors);
/* A trained parameter goes into an event of a few kB: its weights, and its gradient where it is updated, as the mean
 * over the samples that it is the sum over. 0 or a negative errno. */
int shown_tensors_put(struct shown_tensors *tensors, const struct step_report *report, uint32_t parameter,
                      struct tfevent *event);
/* The norm of all gradients that were put; NAN where they are not the mean over the same samples. */
double shown_tensors_norm(const struct shown_tensors *tensors);

#endif
