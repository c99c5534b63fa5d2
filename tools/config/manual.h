/* The manual page pipetrain(1): command line, every key of the option table, exit codes. */
#ifndef PIPETRAIN_MANUAL_H
#define PIPETRAIN_MANUAL_H

#include <stdio.h>

/* In troff's man macros; make runs this as `pipetrain --help=man`. */
void manual_write(FILE *out);

#endif
