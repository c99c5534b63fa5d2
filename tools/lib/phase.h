/* The phases of the program, for a supervisor: PIPETRAIN_PHASES=FD in the environment is the number of a descriptor
 * that is open when the program starts; a line is written to it whenever a phase begins. */
#ifndef PIPETRAIN_PHASE_H
#define PIPETRAIN_PHASE_H

enum run_phase {
    RUN_PHASE_START,                /* repeated when the program restarts itself (team_wait.h) */
    RUN_PHASE_INDEXING,
    RUN_PHASE_PLANNING,
    RUN_PHASE_ALLOCATING,
    RUN_PHASE_FIRST_STEP,           /* until all towers have ended the first step */
    RUN_PHASE_TRAINING,
    RUN_PHASE_EVALUATING,
    RUN_PHASE_SAVING,
    RUN_PHASE_CLOSING,
    RUN_PHASE_COUNT
};

/* Read the descriptor from the environment, and enter the first phase. Called after signals_catch, and before any file
 * is opened. */
void phase_begin(void);
/* Write the line of a phase, only once while the phase lasts. Never blocks: a line that does not fit into the pipe is
 * lost. Main only. */
void phase_enter(enum run_phase phase);
/* The line of a phase. */
const char *phase_name(enum run_phase phase);

#endif
