/* A run as the report shows it: what its directory tells, read once. */
#ifndef PIPETRAIN_SHOWN_RUN_H
#define PIPETRAIN_SHOWN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "tools/report/metrics.h"
#include "tools/report/remarks.h"
#include "tools/report/settings_list.h"

#define DAMAGE_SHOWN_MAX 100u   /* damaged records that are listed */

struct shown_run {
    const char *path;           /* of the directory, as it was named; lent */
    const char *name;           /* what it is called on the page; within path */
    uint32_t number;            /* from 0 */
    bool has_ended;             /* it has a summary.json */
    json_t *summary;            /* that, or what the rows tell so far (run_so_far.h); never NULL */
    json_t *evaluation;         /* what evaluate --json told, NULL: it is not there */
    char *conf;                 /* run.conf, NULL: none */
    struct settings_list settings;
    struct metrics metrics;
    json_t *damage;             /* the first damaged records, as lines of quarantine.jsonl or as the summary has them */
    uint64_t damage_count;      /* records that are damaged or missing, those that are not listed too */
    struct remarks remarks;     /* what is missing or damaged */
};

/* Read the directory at `path`. 0, whatever is missing or damaged there (remarks were said on stderr then); or, after a
 * message, EXIT_CODE_DATA where it is no run's, EXIT_CODE_MEMORY; or end_request_code() once the program was asked to
 * end. shown_run_release after any. */
int shown_run_read(struct shown_run *run_out, const char *path);
void shown_run_release(struct shown_run *run);

#endif
