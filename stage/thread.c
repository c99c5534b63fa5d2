/* Named threads. Signals are blocked around the creation, so that a thread never receives one, not even in its first
 * instruction. */
#include "stage/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "stage/log.h"

#define THREAD_NAME_BYTES 16    /* the limit of Linux, with the terminator */
#define TIMER_SLACK_NS 1000u    /* Linux's default of 50000 is longer than the sleeps of threads that poll a GPU */

struct thread {
    pthread_t id;
    char name[THREAD_NAME_BYTES];
    void (*loop)(void *arg);
    void *arg;
    const struct log_sink *sink;        /* of the thread that started it */
};

static void *thread_main(void *arg)
{
    struct thread *thread = arg;
    (void)log_sink_set(thread->sink);
    pthread_setname_np(pthread_self(), thread->name);
    prctl(PR_SET_TIMERSLACK, (unsigned long)TIMER_SLACK_NS, 0ul, 0ul, 0ul);
    thread->loop(thread->arg);
    return NULL;
}

/* All signals except those of faults in the thread itself. If a fault's signal is blocked, the process ends without a
 * sanitizer's report or a core dump. */
static void blocked_signals(sigset_t *signals)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
    sigfillset(signals);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(signals, faults[i]);
}

int thread_start(struct thread **thread_out, const char *name, void (*loop)(void *arg), void *arg)
{
    struct thread *thread = calloc(1, sizeof(*thread));
    if (thread == NULL)
        return -ENOMEM;
    snprintf(thread->name, sizeof(thread->name), "%s", name);
    thread->loop = loop;
    thread->arg = arg;
    thread->sink = log_sink_get();

    sigset_t blocked, before;
    blocked_signals(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int error = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(thread);
        return -error;
    }
    *thread_out = thread;
    return 0;
}

void thread_join(struct thread *thread)
{
    if (thread == NULL)
        return;
    pthread_join(thread->id, NULL);
    free(thread);
}

void thread_bind(const uint32_t *cpus, uint32_t count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (uint32_t i = 0; i < count; i++)
        CPU_SET(cpus[i], &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

void thread_lower_priority(void)
{
    (void)!nice(THREAD_NICENESS);       /* -1 is a possible result without an error */
}
