/* The phases of the program, told to a supervisor that wants to know: PIPETRAIN_PHASES=FD in the
 * environment names a descriptor that is open when the program starts, and each phase is a line there. */
#ifndef PIPETRAIN_PHASE_H
#define PIPETRAIN_PHASE_H

enum phase {
    PHASE_START,                /* again where the program starts itself once more */
    PHASE_INDEXING,
    PHASE_PLANNING,
    PHASE_ALLOCATING,
    PHASE_FIRST_STEP,           /* until it is done everywhere */
    PHASE_TRAINING,
    PHASE_EVALUATING,
    PHASE_SAVING,
    PHASE_CLOSING,
    PHASE_COUNT
};

/* Take the descriptor from the environment; nothing is told where it is not open. When
 * requests to end are heeded, which is what the first phase means, and before any file is opened. */
void phase_begin(void);
/* Tell of a phase, once while it lasts. Never blocks: a line that finds no room is lost. Main only. */
void phase_enter(enum phase phase);
/* The line that tells of a phase. */
const char *phase_name(enum phase phase);

#endif
