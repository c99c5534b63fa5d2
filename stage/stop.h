/* How a run ends: one object that all threads of a run share. The first error wins and is printed once; everything that
 * can block registers a closer, so that no wait outlives the run. Exit codes are those of the manual. */
#ifndef PIPETRAIN_STOP_H
#define PIPETRAIN_STOP_H

#include <stdbool.h>

enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_INTERNAL = 1,
    EXIT_CODE_USAGE = 2,        /* command line or configuration */
    EXIT_CODE_DATA = 3,         /* input missing, unreadable, or damaged beyond the limit */
    EXIT_CODE_MEMORY = 4,       /* out of memory (host or device), threads or open files */
    EXIT_CODE_OUTPUT = 5,       /* results could not be written */
    EXIT_CODE_STALL = 70,       /* a device call or wait did not end in time (watchdog.h) */
    EXIT_CODE_DEVICE = 71,
    EXIT_CODE_RANK = 72,        /* another process of the run failed (sync/ranks/ranks.h) */
    EXIT_CODE_NONFINITE = 73,   /* the loss or a weight is not a finite number */
    EXIT_CODE_UNLEARNT = 74,    /* --overfit: the samples were not learned */
    EXIT_CODE_STOPPED = 75,     /* ended early by a request, checkpoint saved */
    EXIT_CODE_INTERRUPTED = 130 /* ended early by SIGINT */
};

/* The exit code for an error: EXIT_CODE_MEMORY when a resource ran out (-ENOMEM, -EAGAIN for a thread, -EMFILE,
 * -ENFILE, -EOVERFLOW for sizes), else `otherwise`. */
enum exit_code exit_code_of(int rc, enum exit_code otherwise);
/* The error in words: strerror, or for resources what is short and which limit to look at. */
const char *exit_cause(int rc);

struct stop;

int stop_open(struct stop **stop_out);
/* Every thread that may call stop_fail has been joined. Accepts NULL. */
void stop_close(struct stop *stop);

/* Register close(arg), which stop_fail calls once, in the failing thread and in the order of registration; it must not
 * block. Register before the threads start; when a thread has failed already, close is called at once. Returns 0 or
 * -ENOMEM. */
int stop_on_failure(struct stop *stop, void (*close)(void *arg), void *arg);

/* Remove the closers registered with `arg`, which may be released afterwards: if another thread is running closers,
 * this waits until it has run all of them. Not from a closer. */
void stop_withdraw(struct stop *stop, const void *arg);
/* As stop_withdraw, for all closers. */
void stop_forget(struct stop *stop);

/* Report an error: the first call prints "pipetrain: MESSAGE" to stderr, keeps `code` and runs every closer; later
 * calls do nothing (they are consequences). Any thread. Always returns -ECANCELED, for `return stop_fail(...)`. */
int stop_fail(struct stop *stop, enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* stop_fail for an error that another process has printed already. */
void stop_fail_silently(struct stop *stop, enum exit_code code, const char *message);
/* From now on a failure runs no closers, so that the threads that did not fail can end in an orderly way, as they were
 * asked to; but a second failure does. Main only. */
void stop_hold(struct stop *stop);
/* The end of that: closers of a failure that came meanwhile run now. Any thread. */
void stop_release(struct stop *stop);

/* True once stop_fail has been called. Any thread. */
bool stop_failed(const struct stop *stop);
enum exit_code stop_code(const struct stop *stop);
/* The first message without the prefix, "" when there is none. Valid until stop_close. */
const char *stop_message(const struct stop *stop);

#endif
