/* Print the option table: --help, --help=NAME and the manual page pipetrain(1). */
#ifndef PIPETRAIN_OPTION_HELP
#define PIPETRAIN_OPTION_HELP

#include <stdio.h>

#include "tools/lib/config/problems.h"

/* Print all keys by section, one line each. */
void option_help_all(FILE *out);
/* Print the help of `name`: "section.key", "key" or "section", or "man" for the manual page. 0, or -EINVAL with the
 * nearest name in `problems`. */
int option_help_one(FILE *out, const char *name, struct problems *problems);
/* Print the keys as a section of a manual page. */
void option_help_manual(FILE *out);

/* Print the manual page in the man macros of troff; make runs this as `pipetrain --help=man`. */
void manual_write(FILE *out);

#endif
