/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 as requests to end, for all programs. A signal that is ignored when the program
 * starts (nohup, a background job) stays ignored; SIGQUIT dumps core as usual.
 *
 * The first request ends the program in an orderly way: a run finishes its step and saves its results. SIGINT and
 * SIGTERM mean that somebody is waiting: the second of these, in any order, ends the process at once. SIGHUP and
 * SIGUSR1 never do: a terminal that closes sends SIGHUP twice, and a scheduler sends SIGUSR1 as a warning before its
 * SIGTERM. In a job of Slurm (SLURM_JOB_ID) SIGTERM never does either: when the time of the job is over, or another job
 * preempts it, Slurm sends SIGTERM twice in a row, and SIGKILL later. */
#ifndef PIPETRAIN_SIGNALS_H
#define PIPETRAIN_SIGNALS_H

#include <stdatomic.h>
#include <stdbool.h>

/* For programs whose work can be abandoned at any time: from now on a handler records requests. `flags` are those of
 * sigaction: with SA_RESTART a request interrupts no system call. Called before any thread is started. */
void signals_note(int flags);

/* For runs; called first in main. Until signals_block a request ends the process at once, with its exit code, and with
 * a message if stderr accepts one. Writes to closed pipes, and beyond the limit of a file's size, fail instead of
 * raising a signal. */
void signals_catch(void);
/* Block the signals: requests stay pending from now on, also across an exec. Called before any thread is started. */
void signals_block(void);
/* Start the thread that receives requests until the process ends. Called once, after output_start. 0 or a negative
 * errno. */
int signals_start(void);
/* Set a callback: the first request, even if it has already arrived, calls request(arg) in this thread or the one that
 * receives signals. `saves`: the program then saves its work, which the message to the user says. NULL: no callback,
 * and when this returns none is running. Main only. */
void signals_set_callback(void (*request)(void *arg), void *arg, bool saves);
/* Is this signal, one of the four above, handled? It is not if it was ignored when the program started. */
bool signals_are_handled(int number);

/* Act as if this signal, one of the four above, had arrived; but a second request does not end the process at once. Any
 * thread. */
void signals_request(int number);

/* From now on ignore all requests, because the program ends within a limited time anyway. */
void signals_ignore(void);

/* A flag that becomes true when a request arrives. Any thread. */
const atomic_bool *signals_requested(void);
/* The exit code for the first request, and its signal; 0 if none has arrived. Any thread. */
int signals_exit_code(void);
int signals_number(void);
/* After a request, print its kind and the outcome on stderr: "interrupted: nothing was changed". */
void signals_report(const char *outcome);

#endif
