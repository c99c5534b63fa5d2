/* The directory of a run: resolved run.conf, metrics.jsonl, summary.json, weights.
 * One run at a time: a lock file is held while the run lasts. Used by main only. */
#ifndef PIPETRAIN_RUN_DIRECTORY_H
#define PIPETRAIN_RUN_DIRECTORY_H

#include <stddef.h>
#include <stdio.h>

#include "formats/json.h"
#include "tools/config/settings.h"

struct run_directory;

/* Make (with parents) and lock the directory. A directory that was named by hand and
 * holds an earlier run is used again: its results are replaced, its weights renamed to
 * weights.previous.safetensors; for the default runs/NAME the next free runs/NAME-2, -3,
 * ... is taken. Writes run.conf and an empty metrics.jsonl. 0, or a negative errno with a
 * message in problem_out. */
int run_directory_open(struct run_directory **directory_out, const struct settings *settings, char *problem_out,
                       size_t problem_size);
void run_directory_close(struct run_directory *directory);
const char *run_directory_path(const struct run_directory *directory);
/* Append one object as a line to metrics.jsonl. Failures are said once on stderr; the run
 * goes on, and run_directory_failed tells. */
void run_directory_metrics(struct run_directory *directory, struct json *line);
int run_directory_failed(const struct run_directory *directory);
/* Write `file` in the directory by way of a temporary name, synced, then renamed:
 * write(arg, out) writes the content. 0 or a negative errno. */
int run_directory_write(struct run_directory *directory, const char *file, int (*write)(void *arg, FILE *out),
                        void *arg);

#endif
