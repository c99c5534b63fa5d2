/* pipetrain --compare: the command line. */
#ifndef PIPETRAIN_COMPARE_COMMAND_H
#define PIPETRAIN_COMPARE_COMMAND_H

#include <stdbool.h>

/* Is --compare among the words? */
bool compare_command_is_meant(int argc, char **argv);
/* The program's exit code. As main. */
int compare_command(int argc, char **argv);

#endif
