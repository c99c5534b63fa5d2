/* How long the threads of a tower's team wait awake for each other. */
#ifndef PIPETRAIN_TEAM_WAIT_H
#define PIPETRAIN_TEAM_WAIT_H

/* libgomp, which oneDNN and our own loops run on, spins for milliseconds where threads
 * meet, unless its environment says otherwise before the process starts: on a core that
 * is shared with decoders or with other processes that is time taken from whoever the
 * team waits for. So the program starts itself once more with a short spin, unless the
 * user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT. Call first in main; returns when
 * nothing is to be done or it cannot be. */
void team_wait_prepare(char **argv);

#endif
