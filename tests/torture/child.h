/* A process under test: it runs in a folder of its own, its output goes to files there, and it is killed at its
 * deadline. */
#ifndef PIPETRAIN_TEST_CHILD_H
#define PIPETRAIN_TEST_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/torture/group.h"

/* What a standard stream is connected to. */
enum outlet {
    OUTLET_FILE,        /* "out" and "err" in the folder */
    OUTLET_CLOSED,
    OUTLET_FULL,        /* /dev/full */
    OUTLET_UNREAD,      /* a full pipe that nobody reads */
    OUTLET_TERMINAL,    /* the process's controlling terminal */
    OUTLET_COUNT
};

struct child_limit { int resource; uint64_t value; };

struct child_spec {
    const char *folder;             /* where it runs */
    char *const *argv;
    const char *faults, *board;     /* the library to preload and the file of its board; NULL: none */
    enum outlet out, err;
    const struct child_limit *limit;    /* NULL: none */
    const struct group *group;      /* the control group to run in; NULL: none */
    int ignored_signal;             /* ignored from the start, 0: none */
    bool wants_phases;
};

struct child {
    pid_t pid;
    int pidfd, phases, terminal;    /* -1: none */
    int unread[2];                  /* the pipe of OUTLET_UNREAD */
};

/* How the process ended; is_late: it was killed at the deadline. */
struct child_end { bool is_late; int code, signal; };

/* 0 or a negative errno. */
int child_start(struct child *child, const struct child_spec *spec);
/* Wait for its end, for at most `wait_us`. Returns whether it has ended. */
bool child_wait(const struct child *child, uint64_t wait_us);
/* Wait until it reports this phase. False if it ended before, or after `wait_us`. */
bool child_await_phase(const struct child *child, const char *phase, uint64_t wait_us);
void child_signal(const struct child *child, int signal);
/* Close its terminal. */
void child_hang_up(struct child *child);
/* Wait for its end; kill it at the deadline. */
struct child_end child_end(struct child *child, uint64_t deadline_us);

#endif
