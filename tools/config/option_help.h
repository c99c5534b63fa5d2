/* What the option table says to people: --help, --help=NAME and the manual page. */
#ifndef PIPETRAIN_OPTION_HELP_H
#define PIPETRAIN_OPTION_HELP_H

#include <stdio.h>

#include "tools/config/problems.h"

/* All keys by section, a line each, in columns. */
void option_help_all(FILE *out);
/* What is to know of `name`: "section.key", "key" or "section"; "man" is the whole manual
 * page. 0, or -EINVAL with the nearest name in `problems`. */
int option_help_one(FILE *out, const char *name, struct problems *problems);
/* The keys as a section of a manual page. */
void option_help_manual(FILE *out);

#endif
