/* A process that is tried: started in a folder of its own with its output in files there, waited for
 * with a deadline, never left behind. */
#ifndef PIPETRAIN_TEST_CHILD_H
#define PIPETRAIN_TEST_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/torture/group.h"

/* Where a standard stream leads to. */
enum outlet {
    OUTLET_FILE,        /* "out" and "err" in the folder */
    OUTLET_CLOSED,
    OUTLET_FULL,        /* a device without room */
    OUTLET_UNREAD,      /* a full pipe that nobody reads */
    OUTLET_TERMINAL,    /* a terminal, which the process also belongs to */
    OUTLET_COUNT
};

struct child_limit { int resource; uint64_t value; };

struct child_spec {
    const char *folder;             /* where it runs */
    char *const *argv;
    const char *faults, *board;     /* what to load into it and the board's file; NULL: nothing */
    enum outlet out, err;
    const struct child_limit *limit;    /* NULL: none */
    const struct group *group;      /* what it becomes a member of; NULL: nothing */
    int ignored_signal;             /* ignored from the start, 0: none */
    bool wants_phases;
};

struct child {
    pid_t pid;
    int pidfd, phases, terminal;    /* -1: none */
    int unread[2];                  /* the pipe of OUTLET_UNREAD */
};

/* How it ended. */
struct child_end { bool is_late; int code, signal; };

/* 0 or a negative errno. */
int child_start(struct child *child, const struct child_spec *spec);
/* Wait until it has ended, at most so long. Whether it has. */
bool child_wait(const struct child *child, uint64_t wait_us);
/* Wait until it says that it enters this phase. Whether it did before its end. */
bool child_await_phase(const struct child *child, const char *phase, uint64_t wait_us);
void child_signal(const struct child *child, int signal);
/* Take its terminal away. */
void child_hang_up(struct child *child);
/* Wait for its end until the deadline, then kill it. */
struct child_end child_end(struct child *child, uint64_t deadline_us);

#endif
