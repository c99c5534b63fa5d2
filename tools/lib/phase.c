/* Writes phases to the supervisor's descriptor. */
#include "tools/lib/phase.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "stage/text/decimal.h"

#define VARIABLE "PIPETRAIN_PHASES"
#define LINE_BYTES 32

static const char *const names[RUN_PHASE_COUNT] = {
    [RUN_PHASE_START] = "start",
    [RUN_PHASE_INDEXING] = "indexing",
    [RUN_PHASE_PLANNING] = "planning",
    [RUN_PHASE_ALLOCATING] = "allocating",
    [RUN_PHASE_FIRST_STEP] = "first step",
    [RUN_PHASE_TRAINING] = "training",
    [RUN_PHASE_EVALUATING] = "evaluating",
    [RUN_PHASE_SAVING] = "saving",
    [RUN_PHASE_CLOSING] = "closing",
};
static int descriptor = -1;
static enum run_phase current = RUN_PHASE_COUNT;

const char *phase_name(enum run_phase phase)
{
    return names[phase];
}

void phase_begin(void)
{
    const char *const text = getenv(VARIABLE);
    uint64_t number;
    if (text != NULL && decimal_u64(text, &number) && number <= INT_MAX && fcntl((int)number, F_GETFD) >= 0)
        descriptor = (int)number;
    phase_enter(RUN_PHASE_START);
}

void phase_enter(enum run_phase phase)
{
    if (descriptor < 0 || phase == current)
        return;
    current = phase;
    char line[LINE_BYTES];
    const int bytes = snprintf(line, sizeof(line), "%s\n", names[phase]);
    struct pollfd room = { .fd = descriptor, .events = POLLOUT };
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 && write(descriptor, line, (size_t)bytes) < 0)
        descriptor = -1;        /* the reader has closed the pipe */
}
