/* What the words and options of a pipetrain-convert command line come to. */
#ifndef PIPETRAIN_CONVERT_COMMAND_H
#define PIPETRAIN_CONVERT_COMMAND_H

#include <stdbool.h>

#include "tools/convert/convert.h"

struct convert_command {
    const struct converter *converter;  /* NULL when help or the version is wanted */
    struct convert_options options;     /* strings of argv */
    unsigned given;                     /* of enum convert_option */
    bool wants_help, wants_version;
};

/* 0, or -EINVAL after a message. */
int convert_command_parse(struct convert_command *command, int argc, char **argv);
/* The usage, to stdout. */
void convert_command_help(void);

#endif
