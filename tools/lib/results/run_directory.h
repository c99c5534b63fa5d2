/* The directory of a run: run.conf with all settings, run.net if a file describes the model, metrics.jsonl,
 * quarantine.jsonl, summary.json, weights and checkpoints. A lock file excludes other runs until the run ends. Used by
 * main only, except for adding lines. */
#ifndef PIPETRAIN_RUN_DIRECTORY_H
#define PIPETRAIN_RUN_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/json.h"
#include "stage/file/whole_file.h"
#include "tools/lib/config/settings.h"

#define RUN_MODEL_FILE "run.net"        /* a copy of model.file */
#define RUN_EVENTS_FOLDER "tensorboard"

struct run_directory;

/* The files to which JSON lines are appended; RUN_QUARANTINE only if damaged records are skipped. */
enum run_lines { RUN_METRICS, RUN_QUARANTINE, RUN_LINES_COUNT };

/* The resumed run: its directory, and the lengths of its files of JSON lines when the checkpoint was saved. */
struct run_past { const char *path; uint64_t lines_bytes[RUN_LINES_COUNT]; };

/* Create (with parents) and lock the directory, and write run.conf, run.net and files of JSON lines under temporary
 * names. The results of an earlier run stay until run_directory_begin; temporary files of killed runs are removed. A
 * directory that the user named is reused (run_name_is_taken says whether it may be); for the default runs/NAME the
 * next free one of runs/NAME-2, -3, ... is used. Fails if the name of a result belongs to something other than a
 * regular file. On a file system without locks a warning is printed, and nothing is removed. `past`: the resumed run,
 * or NULL. 0, or a negative errno with a message in problem_out. */
int run_directory_open(struct run_directory **directory_out, const struct settings *settings,
                       const struct run_past *past, char *problem_out, size_t problem_size);
/* Check that there is space for twice `bytes`. 0, also if the file system does not report its space; or -ENOSPC with
 * the numbers in problem_out. */
int run_directory_room(const struct run_directory *directory, uint64_t bytes, char *problem_out, size_t problem_size);
/* Would run_directory_open and run_directory_room succeed now? Creates and changes nothing. Returns the value that they
 * would. */
int run_directory_check(const struct settings *settings, const struct run_past *past, uint64_t bytes,
                        char *problem_out, size_t problem_size);
/* Replace the results of an earlier run; called once, after the first step. Its weights become
 * weights.previous.safetensors, and its best weights best.previous.safetensors, unless it is resumed. The old summary
 * is removed first and run.conf appears last, so that at any time a directory with a summary is complete. Allocates
 * nothing. 0 or a negative errno. */
int run_directory_begin(struct run_directory *directory);
/* Without run_directory_begin, a directory that was created by run_directory_open is removed. Accepts NULL. */
void run_directory_close(struct run_directory *directory);
/* Is it the name of a file that a run writes in its directory? */
bool run_directory_writes(const char *name);
const char *run_directory_path(const struct run_directory *directory);
/* Append an object as a line; does nothing if the run has no such file. A line that was written incompletely is
 * removed. The first error is printed, the run continues, and run_directory_failed returns the error. One thread at a
 * time for each file. Accepts NULL. */
void run_directory_add_line(struct run_directory *directory, enum run_lines which, struct json *line);
const char *run_directory_lines_name(enum run_lines which);
/* The current length of the file; 0 without one. */
uint64_t run_directory_lines_bytes(const struct run_directory *directory, enum run_lines which);
/* Wait until all lines are on the disk, before a checkpoint refers to them. 0 or a negative errno. Any thread. */
int run_directory_sync_lines(const struct run_directory *directory);
/* The number of lines that could not be written. No thread may be adding lines. */
uint64_t run_directory_lost_lines(const struct run_directory *directory, enum run_lines which);
/* Does the path still lead to the directory, and does it still contain the files of JSON lines? A problem is printed
 * once. 0; -ESTALE: the directory or a file was moved; -ENOENT: the directory was removed, and no result can be
 * written. Called by main, after run_directory_begin. Accepts NULL. */
int run_directory_look(struct run_directory *directory);
/* The file of JSON lines, opened for reading through the directory's descriptor instead of its path. NULL: there is
 * none. */
FILE *run_directory_read_lines(const struct run_directory *directory, enum run_lines which);
/* The first error of adding lines, or else the result of run_directory_look. No thread may be adding lines. */
int run_directory_failed(const struct run_directory *directory);

/* The directory's descriptor, for files that are written atomically (stage/file/whole_file.h) or removed. */
int run_directory_fd(const struct run_directory *directory);

#endif
