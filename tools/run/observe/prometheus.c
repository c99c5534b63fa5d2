/* Where metrics go. */
#include "tools/run/observe/prometheus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "tools/config/observe/scrape_target.h"
#include "tools/run/observe/metrics_text.h"
#include "tools/run/observe/scrape_file.h"

struct prometheus {
    const char *path;                   /* of the file */
    struct metrics_text metrics;
    bool is_off, has_begun;
};

struct prometheus *prometheus_open(const struct observed_run *run)
{
    struct scrape_target target;
    const char *problem;
    const char *const asked = run->settings->report.prometheus;
    if (scrape_target_read(asked, &target, &problem) != 0 || target.kind == SCRAPE_NONE)
        return NULL;
    struct prometheus *const prometheus = calloc(1, sizeof(*prometheus));
    if (prometheus == NULL) {
        log_message(LOG_ERROR, "report.prometheus: %s: the run goes on without", strerror(ENOMEM));
        return NULL;
    }
    metrics_text_init(&prometheus->metrics, run);
    prometheus->path = asked;
    return prometheus;
}

static void give(struct prometheus *prometheus)
{
    metrics_text_write(&prometheus->metrics, (double)clock_read_ns(CLOCK_REALTIME) / 1e9);
    const int rc = scrape_file_write(prometheus->path, prometheus->metrics.text, prometheus->metrics.bytes);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: metrics are not written: %s: the run goes on without", prometheus->path,
                    strerror(-rc));
    prometheus->is_off = rc != 0;
}

void prometheus_begin(struct prometheus *prometheus)
{
    if (prometheus == NULL)
        return;
    prometheus->has_begun = true;
    give(prometheus);
}

void prometheus_put(struct prometheus *prometheus, const struct observation *observation)
{
    if (prometheus == NULL || prometheus->is_off)
        return;
    metrics_text_add(&prometheus->metrics, observation);
    give(prometheus);
}

void prometheus_close(struct prometheus *prometheus)
{
    if (prometheus == NULL)
        return;
    prometheus->metrics.is_running = false;
    if (prometheus->has_begun && !prometheus->is_off)
        give(prometheus);
    free(prometheus);
}
