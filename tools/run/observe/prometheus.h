/* Metrics for Prometheus: a file that is replaced at every row, or a port of this machine where the latest text is
 * read. An observer: what goes wrong with it is said once, and the run goes on without. Used by main only. NULL, where
 * there is none, is accepted everywhere. */
#ifndef PIPETRAIN_PROMETHEUS_H
#define PIPETRAIN_PROMETHEUS_H

#include "tools/run/observe/observation.h"

struct prometheus;

/* As report.prometheus of the run's settings says; a port is open from here on. What `run` names is lent until
 * prometheus_close. NULL: none is asked for, or it cannot be (which is said). */
struct prometheus *prometheus_open(const struct observed_run *run);
/* The first batch is done: make the file. */
void prometheus_begin(struct prometheus *prometheus);
void prometheus_put(struct prometheus *prometheus, const struct observation *observation);
/* The file stays, and tells that the run has ended; the port is closed. */
void prometheus_close(struct prometheus *prometheus);

#endif
