/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 as requests to end, for programs whose work can be given up anywhere. The first
 * one is noted; a second SIGINT or SIGTERM is of somebody who waits, and ends the process at once. What is ignored when
 * the program starts stays ignored. (tools/run/signals.h is for a run, which ends after a step.) */
#ifndef PIPETRAIN_END_REQUEST_H
#define PIPETRAIN_END_REQUEST_H

#include <stdatomic.h>

/* From here on requests are noted; `flags` are sigaction's: with SA_RESTART no call is cut short by one. Before any
 * thread. */
void end_request_catch(int flags);
/* True once a request has come. Any thread. */
const atomic_bool *end_requested(void);
/* What the first request asks to exit with; 0 while none has come. */
int end_request_code(void);
/* Say on stderr what asked, and what came of it: "interrupted: nothing was changed". Once one has come. */
void end_request_tell(const char *outcome);

#endif
