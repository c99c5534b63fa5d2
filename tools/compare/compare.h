/* pipetrain --compare: variants of a configuration run in turns, and their results side by side (doc/compare.md).
 * Main thread only. */
#ifndef PIPETRAIN_COMPARE_H
#define PIPETRAIN_COMPARE_H

#include <stdbool.h>

/* Is --compare among the words? */
bool compare_command_is_meant(int argc, char **argv);
/* Returns the program's exit code. As main. */
int compare_command(int argc, char **argv);

#endif
