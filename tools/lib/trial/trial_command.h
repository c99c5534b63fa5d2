/* The command lines of --compare and --tune: what they have in common. Main thread only. */
#ifndef PIPETRAIN_TRIAL_COMMAND_H
#define PIPETRAIN_TRIAL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/lib/config/problems.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/trial/trial.h"

/* Letters of the options; those of one command begin at TRIAL_OPTION_OWN. */
enum { TRIAL_OPTION_SET = 256, TRIAL_OPTION_PROGRESS, TRIAL_OPTION_EXCLUDED, TRIAL_OPTION_OWN };

/* Rows at the end of both tables of options. */
#define TRIAL_OPTION_ROWS \
    { .letter = 'q', .name = "quiet", .help = "print only errors and the result" }, \
    { .letter = TRIAL_OPTION_PROGRESS, .name = "progress", .value = "KIND", \
      .help = "line (default): a line for each run on stderr; none: as --quiet" }, \
    { .letter = TRIAL_OPTION_EXCLUDED, .name = "check" }, \
    { .letter = TRIAL_OPTION_EXCLUDED, .name = "dry-run" }, \
    { .letter = TRIAL_OPTION_EXCLUDED, .name = "overfit", .value = "N" }, \
    { .letter = TRIAL_OPTION_EXCLUDED, .name = "doctor", .value = "json", .may_lack_value = true }, \
    { .letter = TRIAL_OPTION_EXCLUDED, .name = "describe", .value = "MODEL", .may_lack_value = true }, \
    { .letter = TRIAL_OPTION_EXCLUDED, .name = "net" }, \
    { .letter = TRIAL_OPTION_EXCLUDED, .name = "version" }, \
    { .letter = 'h', .name = "help", .help = "this text" }, \
    { .name = NULL }

struct trial_command {
    const char *name;                   /* "--tune" */
    const char *example;                /* a complete command line */
    const struct program_option *options;
    void (*print_usage)(FILE *out);
    /* An option from TRIAL_OPTION_OWN on. Returns 0; 1 to print the usage; -EINVAL after a message. */
    int (*parse)(void *arg, int letter, char *value);
    /* The configuration was read, with the assignments of --set. Returns 0 or a negative errno; either may leave
     * problems. */
    int (*prepare)(void *arg, struct settings *settings, struct problems *problems);
    /* Runs the trials, whose spec comes with everything the command line says. Returns the program's exit code. */
    int (*run)(void *arg, const struct trial_spec *spec);
    void *arg;
};

/* Is the option among the words, alone or as OPTION=VALUE? */
bool trial_command_has(int argc, char **argv, const char *option);
/* All of it. Returns the program's exit code. */
int trial_command_run(const struct trial_command *command, int argc, char **argv);
/* "OPTION=VALUE: wants WHAT" as an error. Returns -EINVAL. */
int trial_command_usage_error(const char *option, const char *value, const char *wants);
/* Parses a time from `least` to a day. Returns 0 or -EINVAL after a message. */
int trial_command_seconds(const char *option, const char *value, double least, double *seconds_out);

#endif
