/* A line for each phase, on a descriptor that somebody else opened. */
#include "tools/phase.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VARIABLE "PIPETRAIN_PHASES"
#define LINE_BYTES 32

static const char *const names[PHASE_COUNT] = {
    [PHASE_START] = "start",
    [PHASE_INDEXING] = "indexing",
    [PHASE_PLANNING] = "planning",
    [PHASE_ALLOCATING] = "allocating",
    [PHASE_FIRST_STEP] = "first step",
    [PHASE_TRAINING] = "training",
    [PHASE_EVALUATING] = "evaluating",
    [PHASE_SAVING] = "saving",
    [PHASE_CLOSING] = "closing",
};
static int descriptor = -1;
static enum phase current = PHASE_COUNT;

const char *phase_name(enum phase phase)
{
    return names[phase];
}

void phase_begin(void)
{
    const char *const text = getenv(VARIABLE);
    char *end = NULL;
    const long number = text == NULL ? -1 : strtol(text, &end, 10);
    if (number >= 0 && number <= INT_MAX && end != text && *end == '\0' && fcntl((int)number, F_GETFD) >= 0)
        descriptor = (int)number;
    phase_enter(PHASE_START);
}

void phase_enter(enum phase phase)
{
    if (descriptor < 0 || phase == current)
        return;
    current = phase;
    char line[LINE_BYTES];
    const int bytes = snprintf(line, sizeof(line), "%s\n", names[phase]);
    struct pollfd room = { .fd = descriptor, .events = POLLOUT };
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 && write(descriptor, line, (size_t)bytes) < 0)
        descriptor = -1;        /* nobody listens any more */
}
