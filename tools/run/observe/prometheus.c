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
#include "tools/run/observe/scrape_server.h"

struct prometheus {
    const char *path;                   /* of the file */
    struct scrape_server *server;       /* NULL: it is a file */
    struct metrics_text metrics;
    bool is_off, has_begun;
};

static void refuse(const char *asked, int rc)
{
    log_message(LOG_ERROR, "%s: there are no metrics: %s: the run goes on without", asked,
                rc == -EADDRINUSE ? "another program listens there" : strerror(-rc));
}

/* To whoever reads them. */
static void give(struct prometheus *prometheus)
{
    struct metrics_text *const metrics = &prometheus->metrics;
    int rc = 0;
    metrics_text_write(metrics, (double)clock_read_ns(CLOCK_REALTIME) / 1e9);
    if (prometheus->server != NULL)
        scrape_server_put(prometheus->server, metrics->text, metrics->bytes);
    else
        rc = scrape_file_write(prometheus->path, metrics->text, metrics->bytes);
    if (rc != 0)
        log_message(LOG_ERROR, "%s: metrics are not written: %s: the run goes on without", prometheus->path,
                    strerror(-rc));
    prometheus->is_off = rc != 0;
}

struct prometheus *prometheus_open(const struct observed_run *run)
{
    struct scrape_target target;
    const char *problem;
    const char *const asked = run->settings->report.prometheus;
    if (scrape_target_read(asked, &target, &problem) != 0 || target.kind == SCRAPE_NONE)
        return NULL;
    struct prometheus *const prometheus = calloc(1, sizeof(*prometheus));
    int rc = prometheus == NULL ? -ENOMEM : 0;
    if (rc == 0 && target.kind == SCRAPE_PORT)
        rc = scrape_server_start(&prometheus->server, &target, METRICS_TEXT_MAX);
    if (rc != 0) {
        refuse(asked, rc);
        free(prometheus);
        return NULL;
    }
    metrics_text_init(&prometheus->metrics, run);
    prometheus->path = asked;
    if (prometheus->server != NULL)
        give(prometheus);
    return prometheus;
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
    scrape_server_close(prometheus->server);
    free(prometheus);
}
