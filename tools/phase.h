/* The phases of the program, told to a supervisor that wants to know: PIPETRAIN_PHASES=FD in the
 * environment names a descriptor that is open when the program starts, and each phase is a line there. */
#ifndef PIPETRAIN_PHASE_H
#define PIPETRAIN_PHASE_H

enum run_phase {
    RUN_PHASE_START,                /* again where the program starts itself once more */
    RUN_PHASE_INDEXING,
    RUN_PHASE_PLANNING,
    RUN_PHASE_ALLOCATING,
    RUN_PHASE_FIRST_STEP,           /* until it is done everywhere */
    RUN_PHASE_TRAINING,
    RUN_PHASE_EVALUATING,
    RUN_PHASE_SAVING,
    RUN_PHASE_CLOSING,
    RUN_PHASE_COUNT
};

/* Take the descriptor from the environment; nothing is told where it is not open. When
 * requests to end are heeded, which is what the first phase means, and before any file is opened. */
void phase_begin(void);
/* Tell of a phase, once while it lasts. Never blocks: a line that finds no room is lost. Main only. */
void phase_enter(enum run_phase phase);
/* The line that tells of a phase. */
const char *phase_name(enum run_phase phase);

#endif
