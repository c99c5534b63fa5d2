/* Reads the directory of a run as JSON for the report page. The files may be damaged, incomplete, or written by a run
 * that is still going on. */
#ifndef PIPETRAIN_REPORT_INPUT_H
#define PIPETRAIN_REPORT_INPUT_H

#include <jansson.h>

#define REPORT_DAMAGE_SHOWN_MAX 100u    /* damaged records that are listed for each run */
#define REPORT_ROWS_SHOWN_MAX 200u      /* points of a curve; of more rows, neighbours are averaged */

/* Read the directory at `path` into an object that the caller owns:
 *
 *   path          as given
 *   name          the last component of the path
 *   has_summary   whether summary.json exists
 *   summary       summary.json, or the same names computed from the rows where it is missing or damaged
 *   evaluation    evaluation.json (pipetrain evaluate --json), or null
 *   conf          the text of run.conf, or null
 *   train, validation   columns of numbers from metrics.jsonl; is_thinned: each is the mean of neighbouring rows,
 *                 with the columns NAME_least and NAME_most
 *   elapsed       seconds of training and evaluation
 *   damage, damage_count   the first damaged records, and the number of all of them
 *   problems      what could not be read, in words; the same messages have been printed on stderr
 *
 * Returns 0, also where files are missing or damaged. After a message: EXIT_CODE_DATA where the directory is not one of
 * a run, EXIT_CODE_MEMORY; or signals_exit_code() when the program was asked to stop. */
int report_input_read(json_t **run_out, const char *path);

#endif
