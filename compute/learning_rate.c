/* Learning rate schedules. Called by trainers when they queue an update, and by reports. */
#include "compute/learning_rate.h"

#include <math.h>

static double constant_at(const struct learning_rate *rate, double step)
{
    (void)step;
    return rate->base;
}

static double piecewise_at(const struct learning_rate *rate, double step)
{
    double factor = 1;
    for (uint32_t i = 0; i < rate->boundary_count && step > rate->boundaries[i]; i++)
        factor = rate->factors[i];
    return rate->base * factor;
}

static double exponential_at(const struct learning_rate *rate, double step)
{
    const double periods = step / rate->period;
    return rate->base * pow(rate->factor, rate->staircase ? floor(periods) : periods);
}

static double inverse_time_at(const struct learning_rate *rate, double step)
{
    return rate->base / (1 + rate->factor * step);
}

/* The position of `step` between `from` and `to`, 0 to 1. */
static double share(double step, double from, double to)
{
    return step >= to ? 1 : step <= from ? 0 : (step - from) / (to - from);
}

/* The number between `from` and `to` at `share` of half a cosine. */
static double along_cosine(double from, double to, double share)
{
    return to + (from - to) * (1 + cos(M_PI * share)) / 2;
}

static double cosine_at(const struct learning_rate *rate, double step)
{
    return along_cosine(rate->base, rate->end, share(step, rate->warmup, rate->last));
}

static double polynomial_at(const struct learning_rate *rate, double step)
{
    return rate->end + (rate->base - rate->end) * pow(1 - share(step, rate->warmup, rate->last), rate->power);
}

/* The rate of one_cycle. The last step, not the step after it, has the smallest rate. */
static double one_cycle_at(const struct learning_rate *rate, double step)
{
    const double begin = rate->base / RATE_CYCLE_START, top = rate->peak * rate->last - 1, last = rate->last - 1;
    if (step <= top)
        return along_cosine(begin, rate->base, share(step, 0, top));
    return along_cosine(rate->base, begin / RATE_CYCLE_END, share(step, fmax(top, 0), last));
}

static double (*const schedules[RATE_SCHEDULE_COUNT])(const struct learning_rate *rate, double step) = {
    [RATE_CONSTANT] = constant_at,
    [RATE_PIECEWISE] = piecewise_at,
    [RATE_EXPONENTIAL] = exponential_at,
    [RATE_INVERSE_TIME] = inverse_time_at,
    [RATE_COSINE] = cosine_at,
    [RATE_POLYNOMIAL] = polynomial_at,
    [RATE_ONE_CYCLE] = one_cycle_at,
};

static double warmup_factor(const struct learning_rate *rate, double step)
{
    return rate->warmup_from + (1 - rate->warmup_from) * (step / rate->warmup);
}

double learning_rate_at(const struct learning_rate *rate, uint64_t step)
{
    const double scheduled = schedules[rate->schedule](rate, (double)step);
    return (double)step < rate->warmup ? scheduled * warmup_factor(rate, (double)step) : scheduled;
}

void learning_rate_halve(struct learning_rate *rate, uint64_t times)
{
    for (uint64_t i = 0; i < times; i++) {
        rate->base /= 2;
        rate->end /= 2;
    }
}
