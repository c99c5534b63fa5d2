/* Sets how long the OpenMP threads of a tower's team spin while they wait for each other. */
#ifndef PIPETRAIN_TEAM_WAIT_H
#define PIPETRAIN_TEAM_WAIT_H

#include <stdint.h>

/* Called first in main: returns when the process began, on clock_now_ns's clock. After a restart of the program that is
 * the time of its first start, and its name is restored. */
uint64_t team_wait_begin(void);
/* Execute the program again, with the current environment. Called before files are open and threads run. Returns if
 * that is impossible. */
void program_restart(char **argv, uint64_t process_start_ns);

/* Restart the program with a shorter spin of libgomp, which oneDNN and our own loops use. By default its threads spin
 * for milliseconds, which on a core shared with decoders or other processes is time lost for the thread that they wait
 * for. On 2 cores that others were using, one tower of 2 threads was 3.1 times as fast with a short spin (batch 128,
 * median of 7 pairs). Where others compute on half of the cores or more at the start, threads do not spin at all: a
 * network of some hundred weights made 370,000 images/s instead of 37,000 to 85,000 beside ten busy processes on 2
 * cores. (On idle cores that would cost it three quarters of its speed, and resnet20 a fifth.)
 *
 * libgomp reads the setting once, when it is loaded, before main, so the program has to be executed again with
 * GOMP_SPINCOUNT. Not if the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT. Call when towers with teams are going to
 * compute, before files are open and threads run. Returns when nothing is to be done or the restart failed. */
void team_wait_shorten(char **argv, uint64_t process_start_ns);

#endif
