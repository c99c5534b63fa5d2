/* Rows into columns. */
#include "tools/report/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/look.h"

#define PATH_MAX_KEYS 4

/* Where a value stands, and what it is divided by. */
static const struct { const char *path[PATH_MAX_KEYS], *whole[PATH_MAX_KEYS]; } places[VALUE_COUNT] = {
    [VALUE_STEP] = { { "step" }, { NULL } },
    [VALUE_IMAGES] = { { "images" }, { NULL } },
    [VALUE_LOSS] = { { "loss" }, { NULL } },
    [VALUE_ACCURACY] = { { "accuracy" }, { NULL } },
    [VALUE_SECONDS] = { { "seconds" }, { NULL } },
    [VALUE_SPEED] = { { "images_per_second" }, { NULL } },
    [VALUE_RATE] = { { "learning_rate" }, { NULL } },
    [VALUE_INPUT_WAIT] = { { "fractions", "input_wait" }, { NULL } },
    [VALUE_EXPOSED_COPY] = { { "fractions", "exposed_copy" }, { NULL } },
    [VALUE_FORWARD] = { { "fractions", "forward" }, { NULL } },
    [VALUE_BACKWARD] = { { "fractions", "backward" }, { NULL } },
    [VALUE_EXPOSED_REDUCTION] = { { "fractions", "exposed_reduction" }, { NULL } },
    [VALUE_UPDATE] = { { "fractions", "update" }, { NULL } },
    [VALUE_OTHER] = { { "fractions", "other" }, { NULL } },
    [VALUE_RING_FILL] = { { "queues", "ring", "mean" }, { "queues", "ring", "depth" } },
    [VALUE_RING_LEAST] = { { "queues", "ring", "least" }, { "queues", "ring", "depth" } },
    [VALUE_SLOTS_FILL] = { { "queues", "slots", "mean" }, { "queues", "slots", "depth" } },
    [VALUE_SLOTS_LEAST] = { { "queues", "slots", "least" }, { "queues", "slots", "depth" } },
    [VALUE_READERS_BUSY] = { { "loader_busy", "readers" }, { NULL } },
    [VALUE_DECODERS_BUSY] = { { "loader_busy", "decoders" }, { NULL } },
};

static const char *const kinds[ROW_KIND_COUNT] = { [ROW_TRAIN] = "train", [ROW_VALIDATION] = "validation" };

static int make_room(struct columns *columns)
{
    if (columns->count < columns->room)
        return 0;
    const size_t room = columns->room > 0 ? 2 * columns->room : 64;
    for (int value = 0; value < VALUE_COUNT; value++) {
        double *const values = reallocarray(columns->values[value], room, sizeof(*values));
        if (values == NULL)
            return -ENOMEM;
        columns->values[value] = values;
    }
    columns->room = room;
    return 0;
}

static void fill_row(struct columns *columns, const json_t *row)
{
    for (int value = 0; value < VALUE_COUNT; value++) {
        double number = places[value].path[0] != NULL ? look_number_at(row, places[value].path) : NAN;
        if (places[value].whole[0] != NULL)
            number /= look_number_at(row, places[value].whole);
        columns->values[value][columns->count] = number;
    }
}

static void note_time(struct metrics *metrics, const json_t *row)
{
    const char *const time = json_string_value(json_object_get(row, "time"));
    if (time != NULL)
        snprintf(metrics->last_time, sizeof(metrics->last_time), "%s", time);
}

static int add_to(struct metrics *metrics, struct columns *columns, const json_t *row)
{
    const int rc = make_room(columns);
    if (rc != 0)
        return rc;
    fill_row(columns, row);
    const double seconds = columns->values[VALUE_SECONDS][columns->count];
    if (isfinite(seconds) && seconds > 0)
        metrics->elapsed += seconds;
    columns->values[VALUE_ELAPSED][columns->count++] = metrics->elapsed;
    note_time(metrics, row);
    return 0;
}

int metrics_add(struct metrics *metrics, const json_t *row)
{
    const char *const kind = json_string_value(json_object_get(row, "kind"));
    if (kind == NULL || isnan(look_number(json_object_get(row, "step"))))
        return -EBADMSG;
    for (int i = 0; i < ROW_KIND_COUNT; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return add_to(metrics, &metrics->rows[i], row);
    return 0;
}

void metrics_release(struct metrics *metrics)
{
    for (int kind = 0; kind < ROW_KIND_COUNT; kind++)
        for (int value = 0; value < VALUE_COUNT; value++)
            free(metrics->rows[kind].values[value]);
    *metrics = (struct metrics){ .elapsed = 0 };
}
