/* pipetrain --compare: variants of a configuration run in turns, and their results are printed side by side
 * (doc/compare.md). Main thread only. */
#ifndef PIPETRAIN_COMPARE_H
#define PIPETRAIN_COMPARE_H

#include <stdint.h>

/* Run --compare; argc and argv are those of the program. Returns the exit code. */
int compare_command(int argc, char **argv, uint64_t process_start_ns);

#endif
