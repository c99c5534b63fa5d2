/* pipetrain --tune: find the numbers of threads and the depths of the input pipeline that are fastest on this machine,
 * by short runs (doc/tuning.md). Main thread only. */
#ifndef PIPETRAIN_TUNE_H
#define PIPETRAIN_TUNE_H

#include <stdbool.h>

/* Is --tune or --tune-write among the words? */
bool tune_command_is_meant(int argc, char **argv);
/* Returns the program's exit code. As main. */
int tune_command(int argc, char **argv);

#endif
