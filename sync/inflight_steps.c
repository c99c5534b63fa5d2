/* Steps under way. Called by the trainer. */
#include "sync/inflight_steps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "sync/trainer.h"

static void share_out(struct inflight_steps *steps, void *memory)
{
    steps->results = memory;
    struct backend_result *const pieces = (struct backend_result *)(steps->results + steps->depth);
    for (uint32_t i = 0; i < steps->depth; i++)
        steps->results[i].pieces = pieces + (size_t)i * steps->pieces_max;
}

int inflight_steps_open(struct inflight_steps *steps, struct device *device, uint32_t pieces_max)
{
    *steps = (struct inflight_steps){ .device = device, .depth = device->ops->steps_ahead + 1,
                                      .pieces_max = pieces_max };
    steps->reports = calloc(steps->depth, sizeof(struct step_report *));
    if (steps->reports == NULL)
        return -ENOMEM;
    void *memory;
    const size_t bytes = sizeof(struct step_result) + pieces_max * sizeof(struct backend_result);
    const int rc = device->ops->alloc_pinned(device, steps->depth * bytes, &memory);
    if (rc == 0)
        share_out(steps, memory);
    return rc;
}

void inflight_steps_close(struct inflight_steps *steps)
{
    if (steps->results != NULL)
        steps->device->ops->free_pinned(steps->device, steps->results);
    free(steps->reports);
}

struct step_result *inflight_steps_begin(struct inflight_steps *steps, struct step_report *report)
{
    const uint64_t place = steps->queued % steps->depth;
    steps->reports[place] = report;
    return &steps->results[place];
}

struct step_report *inflight_steps_oldest(const struct inflight_steps *steps, const struct step_result **result_out)
{
    const uint64_t place = steps->finished % steps->depth;
    *result_out = &steps->results[place];
    return steps->reports[place];
}

/* What is counted from step to step is as the last piece found it. */
static struct backend_result sum_pieces(const struct step_result *result, uint32_t pieces)
{
    struct backend_result sum = result->pieces[pieces - 1];
    for (uint32_t i = 0; i + 1 < pieces; i++) {
        sum.loss_sum += result->pieces[i].loss_sum;
        sum.correct += result->pieces[i].correct;
        sum.counted += result->pieces[i].counted;
    }
    return sum;
}

void step_result_report(const struct step_result *result, struct tower *tower, bool was_inspected,
                        struct step_report *report)
{
    const struct health *const health = was_inspected ? &result->health : NULL;
    report->result = sum_pieces(result, tower_pieces(tower, report->span.count));
    report->gradient_norm = health != NULL && report->result.is_skipped == 0
                                ? health_gradient_norm(health, report->result.loss_scale) : NAN;
    report->broken = health_of_step(tower, health, report->result.loss_sum);
}
