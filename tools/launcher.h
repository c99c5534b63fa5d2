/* Launchers that start a program as several processes: mpirun, srun. A run is one process: several would train the same
 * network several times on the same cores. Used by main before anything else. */
#ifndef PIPETRAIN_LAUNCHER_H
#define PIPETRAIN_LAUNCHER_H

#include <stdbool.h>

/* Did a launcher start this program as more than one process? The first of them prints what to do instead. */
bool launcher_refuses(void);

#endif
