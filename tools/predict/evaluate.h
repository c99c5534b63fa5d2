/* pipetrain evaluate: evaluate a trained network on a validation set. */
#ifndef PIPETRAIN_EVALUATE_H
#define PIPETRAIN_EVALUATE_H

#include <stdint.h>

/* Run the command; argv[1] is "evaluate". Returns the exit code. Called by the main thread before any other. */
int evaluate_command(int argc, char **argv, uint64_t process_start_ns);

#endif
