/* Weights and gradients for people to look at. Called by what writes for TensorBoard. */
#include "tools/run/observe/shown_tensors.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TAG_BYTES 160u

size_t shown_tensors_bytes(const struct net *net)
{
    return net_most_numbers(net) * sizeof(float);
}

int shown_tensors_open(struct shown_tensors *tensors, const struct net *net)
{
    *tensors = (struct shown_tensors){ .net = net, .numbers = malloc(shown_tensors_bytes(net)) };
    return tensors->numbers != NULL ? 0 : -ENOMEM;
}

void shown_tensors_release(struct shown_tensors *tensors)
{
    free(tensors->numbers);
}

void shown_tensors_begin(struct shown_tensors *tensors)
{
    tensors->gradient_squares = 0;
    tensors->gradient_samples = 0;
    tensors->is_mixed = false;
}

/* Of the numbers that are there. */
static void put(struct shown_tensors *tensors, const char *what, uint32_t parameter, double factor,
                struct tfevent *event)
{
    const struct parameter *const shown = &tensors->net->parameters[parameter];
    struct histogram *const histogram = &tensors->histogram;
    char tag[TAG_BYTES];
    snprintf(tag, sizeof(tag), "%s/%s", what, shown->name);
    histogram_count(histogram, tensors->numbers, shown->count, factor);
    tfevent_histogram(event, tag, &(struct tfevent_histogram){
                                      .least = histogram->least, .most = histogram->most,
                                      .count = (double)histogram->count, .sum = histogram->sum,
                                      .squares = histogram->squares, .limits = histogram->limits,
                                      .counts = histogram->counts, .buckets = histogram->buckets });
}

/* A tower without samples has no mean. */
static int put_gradient(struct shown_tensors *tensors, const struct step_report *report, uint32_t parameter,
                        struct tfevent *event)
{
    const size_t offset = tower_arena(report->sync->spec.tower)->ranges[parameter].offset;
    const uint32_t samples = sync_gradient_samples(report->sync, &report->span, offset);
    const int rc = snapshot_gradient(report->shown, parameter, tensors->numbers);
    tensors->is_mixed = tensors->is_mixed || samples == 0 ||
                        (tensors->gradient_samples > 0 && samples != tensors->gradient_samples);
    if (rc != 0 || samples == 0)
        return rc;
    put(tensors, "gradients", parameter, 1 / ((double)samples * (double)report->result.loss_scale), event);
    tensors->gradient_samples = samples;
    tensors->gradient_squares += tensors->histogram.squares;
    return 0;
}

int shown_tensors_put(struct shown_tensors *tensors, const struct step_report *report, uint32_t parameter,
                      struct tfevent *event)
{
    const int rc = snapshot_value(report->shown, parameter, tensors->numbers);
    if (rc != 0)
        return rc;
    put(tensors, "weights", parameter, 1, event);
    return parameter_is_updated(&tensors->net->parameters[parameter])
               ? put_gradient(tensors, report, parameter, event) : 0;
}

double shown_tensors_norm(const struct shown_tensors *tensors)
{
    return tensors->is_mixed || tensors->gradient_samples == 0 ? NAN : sqrt(tensors->gradient_squares);
}
