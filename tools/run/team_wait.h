/* How long the threads of a tower's team wait awake for each other. */
#ifndef PIPETRAIN_TEAM_WAIT_H
#define PIPETRAIN_TEAM_WAIT_H

#include <stdint.h>

/* First in main: when the process began, on the clock of clock_now_ns. A program that
 * team_wait_shorten started again has its own name again, and its first beginning. */
uint64_t team_wait_begin(void);

/* libgomp, which oneDNN and our own loops run on, spins for milliseconds where threads meet: on
 * a core that is shared with decoders or with other processes that is time taken from whoever
 * the team waits for. On 2 cores that others were busy on, one tower of 2 threads made 3.1 times
 * the images/s with a short spin (batch 128, median of 7 pairs). Where others compute on half of the
 * cores or more when the program starts, waiting threads do not spin at all: a network of some hundred
 * weights made 370,000 images/s instead of 37,000 to 85,000 beside ten busy processes on 2 cores; on
 * idle cores it would lose three quarters of its speed by that, resnet20 a fifth. libgomp reads how long
 * once, when it is loaded, before anything of the program runs, so the program starts itself once more
 * with such a spin, unless the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT. Call when towers
 * with teams are going to compute, before files are open and threads run; returns when nothing is
 * to be done or it cannot be. */
void team_wait_shorten(char **argv, uint64_t process_start_ns);

#endif
