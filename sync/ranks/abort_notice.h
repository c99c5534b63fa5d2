/* For processes that a launcher started and that end with an error before MPI is initialized, perhaps an error of only
 * some of them. They cannot use MPI, so the processes of one host and user use names of abstract sockets (unix(7)),
 * which vanish with their process. Of several processes with the same reason only one prints it, and processes that
 * wait in MPI_Init end, too. Processes on other hosts are ended by the launcher. All functions but abort_notice_receive
 * are called by main. */
#ifndef PIPETRAIN_ABORT_NOTICE_H
#define PIPETRAIN_ABORT_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

/* Read the environment. Call it before MPI_Init, which may change it. */
void abort_notice_prepare(void);
/* Is this the first process of the run on this host that ends for this reason? Digits in the reason are ignored. Other
 * processes get false as long as the first one runs. */
bool abort_notice_is_first(const char *reason);
/* Notify the other processes of the run on this host that they have to end with this code. Returns when all were
 * notified, or after a second; if some were not, for example on other hosts, launcher_abort ends them. processes: their
 * number in the whole run, including this one; 0: unknown, and launcher_abort is not called. */
void abort_notice_send(int code, uint32_t processes);
/* Returns the code of a notice that another process on this host sent; 0: there is none. May take a second. Any
 * thread. */
int abort_notice_receive(void);

#endif
