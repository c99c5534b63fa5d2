/* The observers of a run: told what its reports are told. Called by the reports. */
#include "tools/run/observe/observers.h"

#include <stdlib.h>

#include "tools/run/observe/tensorboard.h"

struct observers {
    struct tensorboard *board;          /* NULL: none */
    bool have_begun;
};

struct observers *observers_open(const struct observed_run *run)
{
    struct observers *const observers = run->directory != NULL ? calloc(1, sizeof(*observers)) : NULL;
    if (observers == NULL)
        return NULL;
    observers->board = tensorboard_open(run);
    return observers;
}

void observers_begin(struct observers *observers)
{
    if (observers == NULL || observers->have_begun)
        return;
    observers->have_begun = true;
    tensorboard_begin(observers->board);
}

void observers_put(struct observers *observers, const struct observation *observation)
{
    if (observers != NULL)
        tensorboard_put(observers->board, observation);
}

void observers_close(struct observers *observers, bool is_over)
{
    if (observers == NULL)
        return;
    tensorboard_close(observers->board, is_over);
    free(observers);
}
