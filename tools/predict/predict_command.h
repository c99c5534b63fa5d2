/* The command line of pipetrain predict. */
#ifndef PIPETRAIN_PREDICT_COMMAND_H
#define PIPETRAIN_PREDICT_COMMAND_H

#include <stdint.h>

/* The whole program behind `pipetrain predict`, which is argv[1]: its exit code. Main only, before any thread. */
int predict_command(int argc, char **argv, uint64_t process_start_ns);

#endif
