/* The command line of pipetrain itself; evaluate, predict, --compare and --tune have their own. Called by the main
 * thread. */
#ifndef PIPETRAIN_PIPETRAIN_OPTIONS_H
#define PIPETRAIN_PIPETRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/config/config.h"
#include "tools/lib/config/program_option.h"

/* Strings are those of argv. */
struct pipetrain_arguments {
    struct config_arguments config;
    const char *describe, *help, *doctor;       /* their values, "" for everything; NULL: not given */
    uint64_t overfit;           /* samples; 0: not given */
    bool check, dry_run, net, quiet, version;
    char progress[64];          /* --progress as an assignment */
};

extern const struct program_option pipetrain_options[];

/* Parse the command line. 0, or after a message -EINVAL or -ENOMEM; call config_arguments_release in both cases. */
int pipetrain_arguments_read(struct pipetrain_arguments *words_out, int argc, char **argv);

#endif
