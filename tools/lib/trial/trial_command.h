/* The common part of the command lines of --compare and --tune. Main thread only. */
#ifndef PIPETRAIN_TRIAL_COMMAND_H
#define PIPETRAIN_TRIAL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/lib/config/problems.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/trial/trial.h"

/* The arguments of both commands: the first member of the struct that the options of each command fill. */
struct trial_arguments {
    struct config_arguments config;
    bool wants_help, is_quiet;
    enum trial_progress { TRIAL_PROGRESS_LINE, TRIAL_PROGRESS_NONE } progress;
};

extern const char *const trial_progress_names[];

#define TRIAL_FIELD(name) .offset = offsetof(struct trial_arguments, name)
#define TRIAL_EXCLUDED(command) .refused = "does not go with " command

/* The last rows of the option table of `command`, such as "--tune". */
#define TRIAL_OPTION_ROWS(command) \
    { .letter = 'q', .name = "quiet", .store = STORE_FLAG, TRIAL_FIELD(is_quiet), \
      .help = "print only errors and the result" }, \
    { .name = "progress", .value = "KIND", .store = STORE_CHOICE, TRIAL_FIELD(progress), \
      .choices = trial_progress_names, \
      .help = "line (default): a line for each run on stderr; none: as --quiet" }, \
    { .name = "check", TRIAL_EXCLUDED(command) }, \
    { .name = "dry-run", TRIAL_EXCLUDED(command) }, \
    { .name = "overfit", .value = "N", TRIAL_EXCLUDED(command) }, \
    { .name = "doctor", .value = "json", .may_lack_value = true, TRIAL_EXCLUDED(command) }, \
    { .name = "describe", .value = "MODEL", .may_lack_value = true, TRIAL_EXCLUDED(command) }, \
    { .name = "net", TRIAL_EXCLUDED(command) }, \
    { .name = "version", TRIAL_EXCLUDED(command) }, \
    { .letter = 'h', .name = "help", .store = STORE_FLAG, TRIAL_FIELD(wants_help), .help = "this text" }, \
    { .name = NULL }

struct trial_command {
    const char *name;                   /* "--tune" */
    const char *example;                /* a complete command line */
    const struct program_command *line;
    void (*print_usage)(FILE *out);
    /* Called when the configuration and the assignments of --set were read. Returns 0 or a negative errno; either way
     * it may add problems. */
    int (*prepare)(struct trial_arguments *arguments, struct settings *settings, struct problems *problems);
    /* Runs the trials; `spec` contains everything from the command line. Returns the program's exit code. */
    int (*run)(struct trial_arguments *arguments, const struct trial_spec *spec);
};

/* Execute the command. `words` has the defaults. Returns the program's exit code. */
int trial_command_run(const struct trial_command *command, struct trial_arguments *arguments, int argc, char **argv);

#endif
