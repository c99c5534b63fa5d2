/* How a run ends: one object that all threads of a run share. The first error is printed and determines the exit code;
 * everything that can block registers a closer, so that no wait outlives the run. Exit codes are those of the
 * manual. */
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
    EXIT_CODE_STOPPED = 75,     /* ended early on request, checkpoint saved */
    EXIT_CODE_INTERRUPTED = 130 /* ended early by SIGINT */
};

/* The exit code for an error: EXIT_CODE_MEMORY if a resource is exhausted (-ENOMEM, -EAGAIN for a thread, -EMFILE,
 * -ENFILE, -EOVERFLOW for sizes), else `otherwise`. */
enum exit_code exit_code_of(int rc, enum exit_code otherwise);
/* The text for an error: strerror's; for an exhausted resource, which one it is and which limit to check. */
const char *exit_cause(int rc);

struct stop;

int stop_open(struct stop **stop_out);
/* All threads that may call stop_fail have been joined. Accepts NULL. */
void stop_close(struct stop *stop);

/* Register close(arg), which stop_fail calls once, in the failing thread and in the order of registration; it must not
 * block. To be called before the threads start; if the run has already failed, close is called at once. 0 or
 * -ENOMEM. */
int stop_on_failure(struct stop *stop, void (*close)(void *arg), void *arg);

/* Remove the closers registered with `arg`, which may be released afterwards. If another thread is running closers,
 * wait until it has run all of them. Not to be called from a closer. */
void stop_withdraw(struct stop *stop, const void *arg);
/* As stop_withdraw, for all closers. */
void stop_forget(struct stop *stop);

/* Report an error: the first call logs the message as LOG_ERROR (log.h), stores `code` and runs all closers; later
 * errors are consequences and are ignored. Any thread. Always returns -ECANCELED, for `return stop_fail(...)`. */
int stop_fail(struct stop *stop, enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As stop_fail, for an error that another process has already printed. */
void stop_fail_silently(struct stop *stop, enum exit_code code, const char *message);
/* From now on the first failure does not run closers, so that the other threads can end in an orderly way, as they were
 * asked to; a second failure runs them. Main only. */
void stop_hold(struct stop *stop);
/* End the effect of stop_hold: if there was a failure, run its closers now. Any thread. */
void stop_release(struct stop *stop);

/* True once stop_fail has been called. Any thread. */
bool stop_failed(const struct stop *stop);
enum exit_code stop_code(const struct stop *stop);
/* The message of the first failure without the prefix; "" without a failure. Valid until stop_close. */
const char *stop_message(const struct stop *stop);

#endif
