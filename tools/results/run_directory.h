/* The directory of a run: resolved run.conf, run.net where a file describes the model, metrics.jsonl,
 * quarantine.jsonl, summary.json, weights.
 * One run at a time: a lock file is held while the run lasts. Used by main only, but for lines. */
#ifndef PIPETRAIN_RUN_DIRECTORY_H
#define PIPETRAIN_RUN_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "formats/json.h"
#include "stage/file/whole_file.h"
#include "tools/config/settings.h"

struct run_directory;

/* The files that grow a line at a time: quarantine.jsonl where damaged records are skipped. */
enum run_lines { RUN_METRICS, RUN_QUARANTINE, RUN_LINES_COUNT };

/* A run that ended early and goes on: where, and how long its files of lines were where it goes on. */
struct run_past { const char *path; uint64_t lines_bytes[RUN_LINES_COUNT]; };

/* Make (with parents) and lock the directory, and write there what the run begins with, under
 * temporary names. What an earlier run left stays as it is until run_directory_begin; temporary files
 * of runs that died are removed. A directory that was named by hand is used again (run_name_is_taken says
 * whether it may be); for the default runs/NAME the next free runs/NAME-2, -3, ... is taken. What stands in
 * the place of a result and is not a regular file is refused. A file system without locks is told of once
 * on stderr, and nothing is removed there. With `past` (NULL: a new run) it is that run's directory, and its
 * lines go on. 0, or a negative errno with a message in problem_out. */
int run_directory_open(struct run_directory **directory_out, const struct settings *settings,
                       const struct run_past *past, char *problem_out, size_t problem_size);
/* Is there room for `bytes` twice? 0 also where the file system does not tell; -ENOSPC with the
 * arithmetic in problem_out. */
int run_directory_room(const struct run_directory *directory, uint64_t bytes, char *problem_out, size_t problem_size);
/* Could a run open it, and have that room? Nothing is left there or changed. As run_directory_open, which may fail all
 * the same. */
int run_directory_check(const struct settings *settings, const struct run_past *past, uint64_t bytes,
                        char *problem_out, size_t problem_size);
/* The first step is done: results of an earlier run go, but its weights, which become
 * weights.previous.safetensors; run.conf and the files of lines appear. The summary goes first and
 * run.conf comes last, so what has a summary is whole, at any moment. Once; allocates nothing. 0 or a
 * negative errno. */
int run_directory_begin(struct run_directory *directory);
/* A directory that this run made and in which it did not begin goes again. Accepts NULL. */
void run_directory_close(struct run_directory *directory);
const char *run_directory_path(const struct run_directory *directory);
/* Append one object as a line to a file that the run has, under its temporary name before
 * run_directory_begin; what could be written only in part is taken back. Failures are said once on stderr;
 * the run goes on, and run_directory_failed tells. One thread at a time for each file. Accepts NULL. */
void run_directory_add_line(struct run_directory *directory, enum run_lines which, struct json *line);
const char *run_directory_lines_name(enum run_lines which);
/* How long the file is now; 0 without one. */
uint64_t run_directory_lines_bytes(const struct run_directory *directory, enum run_lines which);
/* Wait until the lines that were added are on the disk: before a state is, which goes on behind them. 0 or a negative
 * errno. Any thread. */
int run_directory_sync_lines(const struct run_directory *directory);
/* How many lines could not be written, when no thread adds any. */
uint64_t run_directory_lost_lines(const struct run_directory *directory, enum run_lines which);
/* Is the directory still where it was, and are its files of lines still in it? What is wrong is told, once. 0; -ESTALE:
 * it was moved, or its files were; -ENOENT: it was removed, and no result can be written. By main, after
 * run_directory_begin; accepts NULL. */
int run_directory_look(struct run_directory *directory);
/* The file of lines, to be read from its beginning, whatever stands at the path of the directory by now; NULL: there is
 * none. */
FILE *run_directory_read_lines(const struct run_directory *directory, enum run_lines which);
/* The first failure of any, when no thread adds lines, or what run_directory_look has found. */
int run_directory_failed(const struct run_directory *directory);

/* Write the parts, one behind the other, as `file` in the directory, by way of a temporary name,
 * synced, then renamed. Allocates nothing. 0 or the negative errno of what failed. The same in two halves, between
 * which the temporary file may be dropped, as it is after a failure. */
int run_directory_write(struct run_directory *directory, const char *file, const struct file_part *parts,
                        size_t count);
int run_directory_prepare(struct run_directory *directory, const char *file, const struct file_part *parts,
                          size_t count);
int run_directory_appear(struct run_directory *directory, const char *file);
void run_directory_drop(struct run_directory *directory, const char *file);
/* Of the files whose names are those of a number (number_of; UINT64_MAX: it is none), remove all but the `keep` largest
 * up to `number`. What cannot be removed stays. */
void run_directory_keep(struct run_directory *directory, uint64_t (*number_of)(const char *name), uint64_t number,
                        uint32_t keep);

#endif
