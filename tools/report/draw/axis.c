/* Ticks at 1, 2 and 5 times powers of ten. */
#include "tools/report/draw/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* So that a value that should be a tick is one, whatever was rounded. */
#define NEAR 1e-9
#define TINY 1e-30              /* differences below it are none */
#define DECIMALS_MAX 6

static double round_step(double span, unsigned ticks)
{
    const double raw = span / ticks, power = pow(10, floor(log10(raw)));
    const double digits = raw / power * (1 - NEAR);
    return power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
}

/* Room for values that are all the same, as far as a double tells. */
static void widen(double *least, double *most)
{
    const double size = fmax(fabs(*least), fabs(*most));
    if (*most - *least > fmax(size * NEAR, TINY))
        return;
    const double room = size > TINY ? size / 10 : 1;
    *least = *least >= 0 ? fmax(0, *least - room) : *least - room;
    *most += room;
}

static void add_ticks(struct axis *axis)
{
    const double first = ceil(axis->least / axis->step - NEAR);
    axis->tick_count = 0;
    while (axis->tick_count < AXIS_TICKS_MAX &&
           (first + (double)axis->tick_count) * axis->step <= axis->most + axis->step * NEAR) {
        const double tick = (first + (double)axis->tick_count) * axis->step;
        axis->ticks[axis->tick_count++] = tick;
    }
}

struct axis axis_exact(double least, double most, unsigned ticks)
{
    widen(&least, &most);
    struct axis axis = { .least = least, .most = most, .step = round_step(most - least, ticks) };
    add_ticks(&axis);
    return axis;
}

struct axis axis_round(double least, double most, unsigned ticks)
{
    struct axis axis = axis_exact(least, most, ticks);
    axis.least = floor(axis.least / axis.step + NEAR) * axis.step;
    axis.most = ceil(axis.most / axis.step - NEAR) * axis.step;
    add_ticks(&axis);
    return axis;
}

/* `digits` times powers of ten, of every so many decades. */
static void add_log_ticks(struct axis *axis, const double *digits, unsigned digit_count, int decades)
{
    const int last = (int)floor(log10(axis->most));
    axis->tick_count = 0;
    for (int power = (int)floor(log10(axis->least)); power <= last; power++)
        for (unsigned i = 0; i < digit_count && power % decades == 0; i++) {
            const double tick = digits[i] * pow(10, power);
            if (tick >= axis->least * (1 - NEAR) && tick <= axis->most * (1 + NEAR) &&
                axis->tick_count < AXIS_TICKS_MAX)
                axis->ticks[axis->tick_count++] = tick;
        }
}

struct axis axis_log(double least, double most, unsigned ticks)
{
    static const double digits[] = { 1, 2, 5 };
    struct axis axis = axis_exact(least, most, ticks);
    axis.is_log = true;
    axis.least = fmax(axis.least, least / 2);
    if (axis.most / axis.least < 8)
        return axis;
    axis.step = 0;
    add_log_ticks(&axis, digits, 3, 1);
    for (int decades = 1; axis.tick_count > ticks; decades++)
        add_log_ticks(&axis, digits, 1, decades);
    return axis;
}

double axis_place(const struct axis *axis, double value)
{
    if (!axis->is_log)
        return (value - axis->least) / (axis->most - axis->least);
    return value > 0 ? log(value / axis->least) / log(axis->most / axis->least) : -1;
}

/* What large numbers are counted in. */
static double unit_of(double size, const char **name_out)
{
    static const struct { double from, unit; const char *name; } units[] = {
        { 1e10, 1e9, "G" }, { 1e7, 1e6, "M" }, { 1e4, 1e3, "k" }, { 0, 1, "" },
    };
    size_t i = 0;
    while (size < units[i].from)
        i++;
    *name_out = units[i].name;
    return units[i].unit;
}

struct axis_label axis_label(const struct axis *axis, size_t tick, bool is_share)
{
    struct axis_label label;
    const char *unit;
    const double factor = is_share ? 100 : 1, value = factor * axis->ticks[tick];
    const double size = axis->step > 0 ? factor * fmax(fabs(axis->least), fabs(axis->most)) : value;
    const double divisor = unit_of(size, &unit);
    const double step = axis->step * factor / divisor;
    const int digits = step > 0 ? 1 + (int)fmin(9, ceil(log10(size / divisor / step))) : 4;
    const double decimals = step > 0 ? fmax(0, ceil(-log10(step) - NEAR)) : DECIMALS_MAX + 1;
    if (decimals <= DECIMALS_MAX)
        snprintf(label.text, sizeof(label.text), "%.*f%s", (int)decimals, value / divisor, unit);
    else
        snprintf(label.text, sizeof(label.text), "%.*g%s", digits, value / divisor, unit);
    if (is_share)
        strcat(label.text, " %");
    return label;
}
