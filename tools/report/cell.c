/* Values in words. */
#include "tools/report/cell.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/config/number.h"
#include "tools/report/look.h"

/* What a whole number of the summary comes to, however it was written. */
static uint64_t whole(double value)
{
    return value > 0 ? value < 1e18 ? (uint64_t)value : UINT64_C(1000000000000000000) : 0;
}

static void write_seconds(struct cell *cell, double seconds)
{
    const unsigned minutes = (unsigned)(fmin(seconds, 1e9) / 60);
    if (seconds < 100)
        snprintf(cell->text, sizeof(cell->text), "%.3g s", seconds);
    else if (seconds < 3600)
        snprintf(cell->text, sizeof(cell->text), "%u min %02.0f s", minutes, floor(seconds - 60.0 * minutes));
    else
        snprintf(cell->text, sizeof(cell->text), "%u h %02u min", minutes / 60, minutes % 60);
}

static void write_number(struct cell *cell, double value, enum cell_form form)
{
    if (form == CELL_COUNT)
        snprintf(cell->text, sizeof(cell->text), "%s", number_grouped(whole(round(value))).text);
    else if (form == CELL_RATE)
        snprintf(cell->text, sizeof(cell->text), "%s", number_rate(value).text);
    else if (form == CELL_SHARE)
        snprintf(cell->text, sizeof(cell->text), "%.2f %%", 100 * value);
    else if (form == CELL_BYTES)
        snprintf(cell->text, sizeof(cell->text), "%s", number_bytes(whole(value)).text);
    else if (form == CELL_SECONDS)
        write_seconds(cell, value);
    else
        snprintf(cell->text, sizeof(cell->text), "%.5g", value);
}

static void write_text(struct cell *cell, const char *text, enum cell_form form)
{
    const size_t seconds = strlen("2026-01-31T12:00:00");
    if (form == CELL_TIME && strlen(text) > seconds && text[10] == 'T')
        snprintf(cell->text, sizeof(cell->text), "%.10s %.8s UTC", text, text + 11);
    else
        snprintf(cell->text, sizeof(cell->text), "%s", text);
}

/* How many from `first` on are the same. */
static size_t count_same(const json_t *devices, size_t first)
{
    size_t end = first + 1;
    while (end < json_array_size(devices) &&
           json_equal(json_array_get(devices, first), json_array_get(devices, end)) != 0)
        end++;
    return end - first;
}

static void write_devices(struct cell *cell, const json_t *devices)
{
    size_t used = 0;
    for (size_t i = 0, same; i < json_array_size(devices) && used < sizeof(cell->text); i += same) {
        const json_t *const device = json_array_get(devices, i);
        const char *const name = json_string_value(json_object_get(device, "name"));
        const double bytes = json_number_value(json_object_get(device, "memory_bytes"));
        char times[32] = "";
        same = count_same(devices, i);
        if (same > 1)
            snprintf(times, sizeof(times), "%zu x ", same);
        used += (size_t)snprintf(cell->text + used, sizeof(cell->text) - used, "%s%s%s, %s", i > 0 ? "; " : "", times,
                                 name != NULL ? name : "?", number_bytes(whole(bytes)).text);
    }
}

struct cell cell_of(const json_t *value, enum cell_form form)
{
    struct cell cell = { "" };
    if (form == CELL_DEVICES && look_is(value, JSON_ARRAY))
        write_devices(&cell, value);
    else if (look_is(value, JSON_STRING))
        write_text(&cell, json_string_value(value), form);
    else if (!isnan(look_number(value)))
        write_number(&cell, look_number(value), form);
    else if (look_is(value, JSON_TRUE) || look_is(value, JSON_FALSE))
        write_text(&cell, look_is(value, JSON_TRUE) ? "yes" : "no", form);
    return cell;
}
