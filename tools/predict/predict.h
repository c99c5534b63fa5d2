/* pipetrain predict: classify images with a trained network. */
#ifndef PIPETRAIN_PREDICT_H
#define PIPETRAIN_PREDICT_H

#include <stdint.h>

/* Run the command; argv[1] is "predict". Returns the exit code. Called by the main thread before any other. */
int predict_command(int argc, char **argv, uint64_t process_start_ns);

#endif
