/* How a run ends. stop_fail is called by the thread with the first error; the other threads notice the end because
 * their queues, rings, slots and devices are cancelled. */
#include "stage/stop.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"

#define STOP_MESSAGE_BYTES 4096

struct closer {
    void (*close)(void *arg);
    void *arg;
};

/* Once `failed` is set, code and message are constant, and closers are no longer added. */
struct stop {
    pthread_mutex_t lock;
    pthread_cond_t closed;      /* closers have run */
    bool is_closing;            /* a thread is running the closers, without holding the lock */
    bool is_held, is_late;      /* is_held: a first failure does not run the closers; is_late: there was one
                                 * meanwhile */
    atomic_bool failed;
    enum exit_code code;
    char message[STOP_MESSAGE_BYTES];
    struct closer *closers;
    size_t closer_count;
};

/* Errors that mean that a resource is exhausted, with a text if strerror's is not clear enough. */
static const struct {
    int rc;
    const char *text;
} shortages[] = {
    { -ENOMEM, NULL },
    { -EOVERFLOW, "more memory than there are addresses for" },
    { -EAGAIN, "a thread could not be started: Resource temporarily unavailable (see ulimit -u and -v, and "
               "pids.max of the control group, which containers and systemd set)" },
    { -EMFILE, "Too many open files (see ulimit -n)" },
    { -ENFILE, "Too many open files in system (see sysctl fs.file-max)" },
};
#define SHORTAGES (sizeof(shortages) / sizeof(shortages[0]))

/* The index in shortages; SHORTAGES if not found. */
static size_t find_shortage(int rc)
{
    size_t i = 0;
    while (i < SHORTAGES && shortages[i].rc != rc)
        i++;
    return i;
}

enum exit_code exit_code_of(int rc, enum exit_code otherwise)
{
    return find_shortage(rc) < SHORTAGES ? EXIT_CODE_MEMORY : otherwise;
}

const char *exit_cause(int rc)
{
    const size_t found = find_shortage(rc);
    return found < SHORTAGES && shortages[found].text != NULL ? shortages[found].text : strerror(-rc);
}

int stop_open(struct stop **stop_out)
{
    struct stop *stop = calloc(1, sizeof(*stop));
    if (stop == NULL)
        return -ENOMEM;
    pthread_mutex_init(&stop->lock, NULL);
    pthread_cond_init(&stop->closed, NULL);
    atomic_init(&stop->failed, false);
    *stop_out = stop;
    return 0;
}

void stop_close(struct stop *stop)
{
    if (stop == NULL)
        return;
    pthread_cond_destroy(&stop->closed);
    pthread_mutex_destroy(&stop->lock);
    free(stop->closers);
    free(stop);
}

/* Called with the lock held. */
static int closer_add(struct stop *stop, struct closer closer)
{
    struct closer *closers = realloc(stop->closers, (stop->closer_count + 1) * sizeof(*closers));
    if (closers == NULL)
        return -ENOMEM;
    closers[stop->closer_count++] = closer;
    stop->closers = closers;
    return 0;
}

int stop_on_failure(struct stop *stop, void (*close)(void *arg), void *arg)
{
    pthread_mutex_lock(&stop->lock);
    const bool failed = atomic_load(&stop->failed);
    const int rc = failed ? 0 : closer_add(stop, (struct closer){ close, arg });
    pthread_mutex_unlock(&stop->lock);
    if (failed)
        close(arg);
    return rc;
}

/* Called with the lock held. */
static void await_closers(struct stop *stop)
{
    while (stop->is_closing)
        pthread_cond_wait(&stop->closed, &stop->lock);
}

void stop_withdraw(struct stop *stop, const void *arg)
{
    pthread_mutex_lock(&stop->lock);
    await_closers(stop);
    size_t kept = 0;
    for (size_t i = 0; i < stop->closer_count; i++)
        if (stop->closers[i].arg != arg)
            stop->closers[kept++] = stop->closers[i];
    stop->closer_count = kept;
    pthread_mutex_unlock(&stop->lock);
}

void stop_forget(struct stop *stop)
{
    pthread_mutex_lock(&stop->lock);
    await_closers(stop);
    stop->closer_count = 0;
    pthread_mutex_unlock(&stop->lock);
}

/* Store code and message of the first failure, and mark its closers as running or, while they are held, as late. False:
 * not the first failure. */
static bool keep_failure(struct stop *stop, enum exit_code code, const char *message)
{
    pthread_mutex_lock(&stop->lock);
    const bool is_first = !atomic_load(&stop->failed);
    if (is_first) {
        stop->code = code;
        snprintf(stop->message, sizeof(stop->message), "%s", message);
        stop->is_late = stop->is_held;
        stop->is_closing = !stop->is_held;
        atomic_store(&stop->failed, true);
    }
    pthread_mutex_unlock(&stop->lock);
    return is_first;
}

/* Run the closers, unless they are held. While `is_closing` is set, the list of closers is constant and their arguments
 * are not released. */
static void run_closers(struct stop *stop)
{
    pthread_mutex_lock(&stop->lock);
    const bool is_closing = stop->is_closing;
    pthread_mutex_unlock(&stop->lock);
    if (!is_closing)
        return;
    for (size_t i = 0; i < stop->closer_count; i++)
        stop->closers[i].close(stop->closers[i].arg);
    pthread_mutex_lock(&stop->lock);
    stop->is_closing = false;
    pthread_cond_broadcast(&stop->closed);
    pthread_mutex_unlock(&stop->lock);
}

void stop_hold(struct stop *stop)
{
    pthread_mutex_lock(&stop->lock);
    stop->is_held = true;
    pthread_mutex_unlock(&stop->lock);
}

void stop_release(struct stop *stop)
{
    pthread_mutex_lock(&stop->lock);
    const bool is_late = stop->is_late;
    stop->is_closing = stop->is_closing || is_late;
    stop->is_held = stop->is_late = false;
    pthread_mutex_unlock(&stop->lock);
    if (is_late)
        run_closers(stop);
}

int stop_fail(struct stop *stop, enum exit_code code, const char *format, ...)
{
    char message[STOP_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (!keep_failure(stop, code, message)) {
        stop_release(stop);
        return -ECANCELED;
    }
    log_message(LOG_ERROR, "%s", stop->message);
    run_closers(stop);
    return -ECANCELED;
}

void stop_fail_silently(struct stop *stop, enum exit_code code, const char *message)
{
    if (keep_failure(stop, code, message))
        run_closers(stop);
    else
        stop_release(stop);
}

bool stop_failed(const struct stop *stop)
{
    return atomic_load(&stop->failed);
}

enum exit_code stop_code(const struct stop *stop)
{
    return stop_failed(stop) ? stop->code : EXIT_CODE_OK;
}

const char *stop_message(const struct stop *stop)
{
    return stop_failed(stop) ? stop->message : "";
}
