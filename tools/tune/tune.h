/* pipetrain --tune: find the numbers of threads and the depths of the input pipeline that are fastest on this
 * machine, by short runs (doc/tuning.md). Main thread only. */
#ifndef PIPETRAIN_TUNE_H
#define PIPETRAIN_TUNE_H

#include <stdint.h>

/* Run --tune; argc and argv are those of the program. Returns the exit code. */
int tune_command(int argc, char **argv, uint64_t process_start_ns);

#endif
