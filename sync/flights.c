/* Steps under way. Called by the trainer. */
#include "sync/flights.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "sync/trainer.h"

static void share_out(struct flights *flights, void *memory)
{
    flights->outcomes = memory;
    struct backend_result *const pieces = (struct backend_result *)(flights->outcomes + flights->depth);
    for (uint32_t i = 0; i < flights->depth; i++)
        flights->outcomes[i].pieces = pieces + (size_t)i * flights->pieces_max;
}

int flights_open(struct flights *flights, struct device *device, uint32_t pieces_max)
{
    *flights = (struct flights){ .device = device, .depth = device->ops->steps_ahead + 1, .pieces_max = pieces_max };
    flights->reports = calloc(flights->depth, sizeof(struct step_report *));
    if (flights->reports == NULL)
        return -ENOMEM;
    void *memory;
    const size_t bytes = sizeof(struct outcome) + pieces_max * sizeof(struct backend_result);
    const int rc = device->ops->alloc_pinned(device, flights->depth * bytes, &memory);
    if (rc == 0)
        share_out(flights, memory);
    return rc;
}

void flights_close(struct flights *flights)
{
    if (flights->outcomes != NULL)
        flights->device->ops->free_pinned(flights->device, flights->outcomes);
    free(flights->reports);
}

struct outcome *flights_begin(struct flights *flights, struct step_report *report)
{
    const uint64_t place = flights->queued % flights->depth;
    flights->reports[place] = report;
    return &flights->outcomes[place];
}

struct step_report *flights_oldest(const struct flights *flights, const struct outcome **outcome_out)
{
    const uint64_t place = flights->finished % flights->depth;
    *outcome_out = &flights->outcomes[place];
    return flights->reports[place];
}

/* What is counted from step to step is as the last piece found it. */
static struct backend_result sum_pieces(const struct outcome *outcome, uint32_t pieces)
{
    struct backend_result result = outcome->pieces[pieces - 1];
    for (uint32_t i = 0; i + 1 < pieces; i++) {
        result.loss_sum += outcome->pieces[i].loss_sum;
        result.correct += outcome->pieces[i].correct;
        result.counted += outcome->pieces[i].counted;
    }
    return result;
}

void outcome_tell(const struct outcome *outcome, struct tower *tower, bool was_inspected, struct step_report *report)
{
    const struct health *const health = was_inspected ? &outcome->health : NULL;
    report->result = sum_pieces(outcome, tower_pieces(tower, report->span.count));
    report->gradient_norm = health != NULL && report->result.is_skipped == 0
                                ? health_gradient_norm(health, report->result.loss_scale) : NAN;
    report->broken = health_of_step(tower, health, report->result.loss_sum);
}
