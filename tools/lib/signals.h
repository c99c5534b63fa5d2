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

/* Programs whose work can be given up anywhere: a handler notes requests from now on. `flags` are sigaction's: with
 * SA_RESTART a request interrupts no system call. Before any thread. */
void signals_note(int flags);

/* Runs. First in main: until signals_block a request ends the process at once, with its exit code and a message where
 * stderr accepts one. Writes to closed pipes, and beyond the limit of a file's size, fail instead of raising a
 * signal. */
void signals_catch(void);
/* From now on requests are pending, also across an exec. Before any thread. */
void signals_block(void);
/* Start the thread that receives requests, until the process ends. After output_start. 0 or a negative errno. Once. */
int signals_start(void);
/* The first request, or one that has come already, calls request(arg) in one of the two threads; `saves`: the program
 * then saves its work, which the message to the user says. NULL: no callback, and none is running any more. Main
 * only. */
void signals_set_callback(void (*request)(void *arg), void *arg, bool saves);
/* One of the four: was it not ignored when the program started? */
bool signals_are_handled(int number);

/* As if that signal, one of the four, had come; but a second one does not end the process at once. Any thread. */
void signals_request(int number);

/* The program is about to end anyway, within a limited time: requests are ignored from now on, the second one too. */
void signals_ignore(void);

/* True once a request has come. Any thread. */
const atomic_bool *signals_requested(void);
/* The exit code that the first request asks for, and its signal; 0 while none has come. Any thread. */
int signals_exit_code(void);
int signals_number(void);
/* Once a request has come: say on stderr which, and the outcome: "interrupted: nothing was changed". */
void signals_report(const char *outcome);

#endif
