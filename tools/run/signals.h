/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 as requests to end. What is ignored when the program starts (nohup,
 * a background job) stays ignored; SIGQUIT dumps core as everywhere.
 *
 * The first request ends the run after the step it is in, with its results saved. SIGINT and SIGTERM are
 * also wishes of somebody who waits: the second of these, in any order, ends the process at once. SIGHUP
 * and SIGUSR1 never hurry anything: a terminal that closes sends SIGHUP twice, and a scheduler warns with
 * SIGUSR1 before its SIGTERM. */
#ifndef PIPETRAIN_SIGNALS_H
#define PIPETRAIN_SIGNALS_H

#include <stdatomic.h>
#include <stdbool.h>

/* First in main: until signals_hold a request ends the process at once, with its exit code and a message
 * where stderr takes one. Writes to closed pipes and over the limit of a file's size become errors of
 * these writes. */
void signals_catch(void);
/* From here on requests wait, also over an exec. Before any thread. */
void signals_hold(void);
/* A thread takes requests, until the process ends. After output_start. 0 or a negative errno. Once. */
int signals_start(void);
/* The first request, or one that has come already, calls request(arg) in one of the two threads; with
 * NULL nothing, and no call is under way any more. Main only. */
void signals_give(void (*request)(void *arg), void *arg);
/* Of one of the four: was it not ignored when the program started? */
bool signals_are_heeded(int number);
/* True once a request has come. Any thread. */
const atomic_bool *signals_requested(void);
/* What the first request asks to exit with; 0 while none has come. */
int signals_exit_code(void);

#endif
