/* Where a trainer's thread is. Main and the thread move it forward, and wait for each other's
 * moves; a cancel ends those waits, but not the ones that order the end. */
#ifndef PIPETRAIN_PHASES_H
#define PIPETRAIN_PHASES_H

#include <pthread.h>
#include <stdbool.h>

enum phase {
    PHASE_STARTING,             /* the thread's team is started */
    PHASE_STARTED,              /* waits for main */
    PHASE_PLANNING,             /* the tower is planned */
    PHASE_PLANNED,              /* waits for main */
    PHASE_OPENING,              /* the tower takes its memory */
    PHASE_OPEN,                 /* waits for main */
    PHASE_FAILED,               /* to be planned or opened */
    PHASE_RUNNING,
    PHASE_DONE,                 /* the memory stays: others may still read it */
    PHASE_LEAVING
};

struct phases {
    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t changed;
    enum phase now;
    int result;                 /* 0, or why it failed */
    bool is_cancelled;
};

void phases_init(struct phases *phases);
void phases_release(struct phases *phases);
void phases_set(struct phases *phases, enum phase phase, int result);
/* Say that `reached` is reached, and wait for `next`: 0 or -ECANCELED. */
int phases_meet(struct phases *phases, enum phase reached, enum phase next);
/* From one phase to another; nothing happens where it is not there: a thread that was cancelled
 * while it waited is done and must stay so. */
void phases_advance(struct phases *phases, enum phase from, enum phase to);
/* Wait for that phase or a later one: 0 or -ECANCELED. From PHASE_DONE on a cancel does not end it. */
int phases_await(struct phases *phases, enum phase phase);
/* The same, and how it went: 0, -ECANCELED, or why the thread failed. */
int phases_result(struct phases *phases, enum phase phase);
/* Any thread. */
void phases_cancel(struct phases *phases);
bool phases_cancelled(struct phases *phases);

#endif
