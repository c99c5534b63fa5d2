/* Passes rows and snapshots on to the observers. Called by tools/lib/run/report.c. */
#include "tools/lib/run/observe/observers.h"

#include <stdlib.h>

#include "tools/lib/run/observe/prometheus.h"
#include "tools/lib/run/observe/tensorboard.h"

struct observers {
    struct observed_run run;
    struct tensorboard *board;          /* NULL: none */
    struct prometheus *prometheus;      /* NULL: none */
    bool have_begun;
};

struct snapshot_rule observers_rule(const struct settings *settings, const struct run_plan *plan)
{
    return plan->devices.backend->computes ? tensorboard_rule(settings) : (struct snapshot_rule){ .count = 0 };
}

size_t observers_bytes(const struct settings *settings, const struct net *net)
{
    return tensorboard_bytes(settings, net);
}

struct observers *observers_open(const struct observed_run *run)
{
    struct observers *const observers = run->directory != NULL ? calloc(1, sizeof(*observers)) : NULL;
    if (observers == NULL)
        return NULL;
    observers->run = *run;
    observers->board = tensorboard_open(run);
    observers->prometheus = prometheus_open(&observers->run);
    return observers;
}

void observers_begin(struct observers *observers)
{
    if (observers == NULL || observers->have_begun)
        return;
    observers->have_begun = true;
    tensorboard_begin(observers->board);
    prometheus_begin(observers->prometheus);
}

void observers_put(struct observers *observers, enum phase phase, const struct metric_values *values)
{
    if (observers == NULL)
        return;
    tensorboard_put(observers->board, phase, values);
    prometheus_put(observers->prometheus, phase, values);
}

void observers_show(struct observers *observers, struct step_report *const *reports)
{
    if (observers != NULL)
        tensorboard_show(observers->board, reports);
}

void observers_close(struct observers *observers, bool is_over)
{
    if (observers == NULL)
        return;
    tensorboard_close(observers->board, is_over);
    prometheus_close(observers->prometheus);
    free(observers);
}
