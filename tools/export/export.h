/* pipetrain export: write a trained network as a file for other programs. */
#ifndef PIPETRAIN_EXPORT_H
#define PIPETRAIN_EXPORT_H

#include <stdint.h>

/* Run the command; argv[1] is "export". Returns the exit code. Called by the main thread before any other. */
int export_command(int argc, char **argv, uint64_t process_start_ns);

#endif
