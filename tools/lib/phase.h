/* The phases of the program, for a supervisor: PIPETRAIN_PHASES=FD in the environment names a descriptor that is open
 * when the program starts, to which a line is written whenever a phase begins. */
#ifndef PIPETRAIN_PHASE_H
#define PIPETRAIN_PHASE_H

enum run_phase {
    RUN_PHASE_START,                /* again when the program restarts itself (team_wait.h) */
    RUN_PHASE_INDEXING,
    RUN_PHASE_PLANNING,
    RUN_PHASE_ALLOCATING,
    RUN_PHASE_FIRST_STEP,           /* until all towers have ended it */
    RUN_PHASE_TRAINING,
    RUN_PHASE_EVALUATING,
    RUN_PHASE_SAVING,
    RUN_PHASE_CLOSING,
    RUN_PHASE_COUNT
};

/* Read the descriptor from the environment, and enter the first phase. After signals_catch, and before any file is
 * opened. */
void phase_begin(void);
/* Write the line of a phase, once while it lasts. Never blocks: a line that does not fit into the pipe is lost. Main
 * only. */
void phase_enter(enum run_phase phase);
/* The line of a phase. */
const char *phase_name(enum run_phase phase);

#endif
