/* Runs' directories for tests, of runs on synthetic data. */
#ifndef PIPETRAIN_RUN_DIRECTORY_FIXTURE_H
#define PIPETRAIN_RUN_DIRECTORY_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/lib/config/config.h"
#include "tools/lib/results/run_directory.h"

#define RUN_TEXT_BYTES 4096u    /* room for a problem or the text of a file */

/* Settings as of "[run] dir = DIR", or with the default directory of `name` when dir is NULL. */
void run_fixture_settings(struct settings *settings_out, const char *name, const char *dir);
/* The directory of a run with these settings; the same, its first step done. */
struct run_directory *run_fixture_open(const char *name, const char *dir);
struct run_directory *run_fixture_begin(const char *name, const char *dir);
/* The error of opening one, and its text in RUN_TEXT_BYTES. */
int run_fixture_refuse(const char *dir, char *problem_out);

/* Write a text in two parts to the directory. */
int run_fixture_put(struct run_directory *directory, const char *file, const char *text);
/* The text of a file, in RUN_TEXT_BYTES, and how long it is; 0 where there is no file. */
size_t run_fixture_text(const char *path, char *text_out);
/* Is DIR/FILE there with this text? */
bool run_fixture_holds(const char *dir, const char *file, const char *text);
/* How many files in the directory have a temporary name. */
int run_fixture_temporaries(const char *path);

#endif
