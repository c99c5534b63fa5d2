/* Reads the directory of a run as JSON for the report page. The files may be damaged, incomplete, or of a run that
 * still continues. */
#ifndef PIPETRAIN_REPORT_INPUT_H
#define PIPETRAIN_REPORT_INPUT_H

#include <jansson.h>

#define REPORT_DAMAGE_SHOWN_MAX 100u    /* damaged records that are listed for each run */

/* Read the directory at `path` into an object that the caller owns. What its files mean is left to the page's script:
 *
 *   path          as given
 *   has_summary   whether summary.json exists
 *   summary, evaluation   summary.json and evaluation.json (pipetrain evaluate --json), or null
 *   conf          the text of run.conf, or null
 *   train, validation   the rows of these kinds in metrics.jsonl (row_groups_end)
 *   damage, damage_count   the first lines of quarantine.jsonl, and the number of damaged records in all of them
 *   problems      what could not be read, in words; the same messages have been printed on stderr
 *
 * Returns 0, also where files are missing or damaged. After a message: EXIT_CODE_DATA where the directory is not one of
 * a run, EXIT_CODE_MEMORY; or signals_exit_code() when the program was asked to stop. */
int report_input_read(json_t **run_out, const char *path);

#endif
