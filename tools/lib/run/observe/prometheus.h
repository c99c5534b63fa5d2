/* Metrics for Prometheus: a text file that is replaced at every row, for node_exporter's textfile collector
 * (doc/observing.md names the metrics). An error is reported once, and the run continues without the file. Used by main
 * only. All functions accept NULL, if nothing is to be written. */
#ifndef PIPETRAIN_PROMETHEUS_H
#define PIPETRAIN_PROMETHEUS_H

#include "tools/lib/run/observe/observers.h"

struct prometheus;

/* Allocate the memory for writing report.prometheus. `run` is borrowed until prometheus_close. NULL: the key is empty,
 * or memory is missing, which is reported. */
struct prometheus *prometheus_open(const struct observed_run *run);
/* Write the file for the first time, after the first batch. */
void prometheus_begin(struct prometheus *prometheus);
void prometheus_put(struct prometheus *prometheus, enum phase phase, const struct metric_values *values);
/* Write the file for the last time, with the information that the run has ended. */
void prometheus_close(struct prometheus *prometheus);

#endif
