/* The command line of pipetrain --tune. Main only. */
#ifndef PIPETRAIN_TUNE_COMMAND_H
#define PIPETRAIN_TUNE_COMMAND_H

#include <stdbool.h>

/* Is --tune among the words? */
bool tune_command_is_meant(int argc, char **argv);
/* All of it: the program's exit code. */
int tune_command(int argc, char **argv);

#endif
