/* The command line of pipetrain evaluate. */
#ifndef PIPETRAIN_EVALUATE_COMMAND_H
#define PIPETRAIN_EVALUATE_COMMAND_H

#include <stdint.h>

/* The whole program behind `pipetrain evaluate`, which is argv[1]: its exit code. Main only, before any thread. */
int evaluate_command(int argc, char **argv, uint64_t process_start_ns);

#endif
