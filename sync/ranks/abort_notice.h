/* Processes of a launcher that end before they have joined their run, because of something that the others may not know
 * of. They cannot use MPI, so those of one host, and of one user, find each other by names of sockets in memory (unix(7),
 * abstract), which vanish with their process: one of them prints what several have to say, and those that wait for them in
 * MPI_Init end, too. The launcher ends processes on other hosts. Called by main, but for abort_notice_receive. */
#ifndef PIPETRAIN_ABORT_NOTICE_H
#define PIPETRAIN_ABORT_NOTICE_H

#include <stdbool.h>
#include <stdint.h>

/* Read the environment. Before MPI is initialized, which may change it. */
void abort_notice_prepare(void);
/* Is this the first process here that has this to say, whatever the numbers in it? The others are not, until it ends. */
bool abort_notice_is_first(const char *reason);
/* This process is about to end with this code, of a run of that many processes (0: not known): wait for a second, or until all
 * of them are told, and have the launcher end those that are not if it is one that would wait for them. */
void abort_notice_send(int code, uint32_t processes);
/* The code of a process here that has refused; 0: none is known of. May take a second. Any thread. */
int abort_notice_receive(void);

#endif
