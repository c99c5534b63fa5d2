/* The command line of pipetrain-convert. */
#ifndef PIPETRAIN_CONVERT_COMMAND_H
#define PIPETRAIN_CONVERT_COMMAND_H

#include <stdbool.h>

#include "tools/convert/convert.h"

struct convert_command {
    const struct converter *converter;  /* NULL: help or the version is wanted */
    struct convert_options options;     /* strings belong to argv */
    unsigned given;                     /* bits of enum convert_option that were given */
    bool wants_help, wants_version;
};

/* 0, or -EINVAL after a message. */
int convert_command_parse(struct convert_command *command, int argc, char **argv);
/* Print the usage to stdout. */
void convert_command_help(void);

#endif
