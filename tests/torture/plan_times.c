/* Processes that are killed, receive signals, or lose their terminal, at random times. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/torture/trial.h"

#define KILLS 60u              /* most of a scenario */
#define SIGNALS 10u             /* most of a scenario and a pair of signals */
#define ENDLESS_US 800000u      /* when signals are sent at the latest in a scenario without an end */
#define GAP_US 20000u           /* longest between two signals */

static const char *const phases[] = { FIRST_PHASE, "indexing", "planning", "allocating", "first step", "evaluating",
                                     "saving", "closing" };

/* Only a second INT or TERM ends the program at once. A system may send HUP twice. */
static const struct pair {
    const char *name;
    int signals[2];
    bool may_stop, may_interrupt;
} pairs[] = {
    { "INT", { SIGINT, 0 }, false, true },
    { "TERM", { SIGTERM, 0 }, true, false },
    { "HUP", { SIGHUP, 0 }, true, false },
    { "USR1", { SIGUSR1, 0 }, true, false },
    { "INT INT", { SIGINT, SIGINT }, false, true },
    { "TERM TERM", { SIGTERM, SIGTERM }, true, true },
    { "HUP HUP", { SIGHUP, SIGHUP }, true, false },
    { "HUP TERM", { SIGHUP, SIGTERM }, true, false },
    { "PIPE TERM", { SIGPIPE, SIGTERM }, true, false },
};

static uint64_t lasts_us(const struct trials *trials, const struct scenario *scenario)
{
    return scenario->is_endless ? (uint64_t)ENDLESS_US * trials->patience : trials->took_us[scenario - scenarios];
}

static int add_kill(struct trials *trials, const struct scenario *scenario, uint32_t index)
{
    struct trial trial = { .scenario = scenario, .group = "killed", .what = "at any moment",
                          .promise = { .codes = CODE(OK), .may_die = true }, .signals = { SIGKILL } };
    trial.delay_us = 1 + trials_random(trials, scenario->name, index, lasts_us(trials, scenario));
    return trials_add(trials, &trial, "after %" PRIu64 " us", trial.delay_us);
}

int plan_kills(struct trials *trials)
{
    int rc = 0;
    for (uint32_t s = 0; s < scenario_count; s++)
        for (uint32_t i = 0; i < trials_share(trials, KILLS) && rc == 0; i++)
            if (scenarios[s].catches)
                rc = add_kill(trials, &scenarios[s], i);
    return rc;
}

/* A second one of these ends a program at once. */
static bool ends_at_once(int number)
{
    return number == SIGINT || number == SIGTERM;
}

static struct trial trial_of(const struct scenario *scenario, const struct pair *pair, const char *phase)
{
    struct trial trial = {
        .scenario = scenario,
        .promise = { .codes = scenario->is_endless ? 0 : CODE(OK), .may_stop = pair->may_stop,
                    .may_interrupt = pair->may_interrupt, .may_be_short = true,
                    .may_lose_reader = pair->signals[0] == SIGPIPE && scenario->ends_with_reader,
                    .may_leave = ends_at_once(pair->signals[0]) && ends_at_once(pair->signals[1]) },
        .signals = { pair->signals[0], pair->signals[1] },
        .phase = phase,
    };
    snprintf(trial.group, sizeof(trial.group), "signal %s", pair->name);
    return trial;
}

static int add_moment(struct trials *trials, const struct scenario *scenario, const struct pair *pair, uint32_t index)
{
    struct trial trial = trial_of(scenario, pair, FIRST_PHASE);
    snprintf(trial.what, sizeof(trial.what), "at any moment");
    trial.delay_us = trials_random(trials, pair->name, 2 * index, lasts_us(trials, scenario));
    trial.gap_us = trials_random(trials, pair->name, 2 * index + 1, GAP_US);
    return trials_add(trials, &trial, "after %" PRIu64 " us, gap %" PRIu64 " us", trial.delay_us, trial.gap_us);
}

static int add_phase(struct trials *trials, const struct scenario *scenario, const struct pair *pair, uint32_t phase,
                     uint32_t index)
{
    struct trial trial = trial_of(scenario, pair, phases[phase]);
    snprintf(trial.what, sizeof(trial.what), "in each phase");
    trial.delay_us = trials_random(trials, phases[phase], index, 2000);
    return trials_add(trials, &trial, "%s and %" PRIu64 " us", phases[phase], trial.delay_us);
}

static int plan_pair(struct trials *trials, const struct scenario *scenario, const struct pair *pair)
{
    const uint32_t phase_count = sizeof(phases) / sizeof(phases[0]);
    int rc = 0;
    for (uint32_t i = 0; i < trials_share(trials, SIGNALS) && rc == 0; i++)
        rc = add_moment(trials, scenario, pair, i);
    for (uint32_t phase = 0; phase < phase_count && rc == 0 && strcmp(scenario->name, "train") == 0; phase++)
        for (uint32_t i = 0; i < trials_share(trials, 4) && rc == 0; i++)
            rc = add_phase(trials, scenario, pair, phase, i);
    return rc;
}

/* A signal that was ignored when the process began, as under nohup, must stay ignored. */
static int add_ignored(struct trials *trials, const struct scenario *scenario, int number, uint32_t index)
{
    struct trial trial = { .scenario = scenario, .promise = { .codes = CODE(OK) }, .phase = FIRST_PHASE,
                          .signals = { number, number }, .ignored_signal = number };
    snprintf(trial.group, sizeof(trial.group), "ignored %s", sigabbrev_np(number));
    snprintf(trial.what, sizeof(trial.what), "at any moment");
    trial.delay_us = trials_random(trials, trial.group, index, lasts_us(trials, scenario));
    return trials_add(trials, &trial, "after %" PRIu64 " us", trial.delay_us);
}

static int plan_ignored(struct trials *trials, const struct scenario *scenario)
{
    static const int numbers[] = { SIGHUP, SIGINT, SIGTERM, SIGUSR1 };
    int rc = 0;
    for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]) && !scenario->is_endless; n++)
        for (uint32_t i = 0; i < trials_share(trials, SIGNALS) && rc == 0; i++)
            rc = add_ignored(trials, scenario, numbers[n], i);
    return rc;
}

static int plan_hang_up(struct trials *trials, const struct scenario *scenario, uint32_t index)
{
    static const struct pair none = { "", { 0, 0 }, true, false };
    struct trial trial = trial_of(scenario, &none, FIRST_PHASE);
    snprintf(trial.group, sizeof(trial.group), "terminal");
    snprintf(trial.what, sizeof(trial.what), "closed at any moment");
    trial.out = trial.err = OUTLET_TERMINAL;
    trial.promise.is_silent = true;
    trial.promise.codes |= CODE(OUTPUT);      /* its last lines may be lost */
    trial.hangs_up = true;
    trial.delay_us = trials_random(trials, trial.group, index, lasts_us(trials, scenario));
    return trials_add(trials, &trial, "after %" PRIu64 " us", trial.delay_us);
}

int plan_signals(struct trials *trials)
{
    int rc = 0;
    for (uint32_t s = 0; s < scenario_count; s++) {
        const struct scenario *const scenario = &scenarios[s];
        for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]) && rc == 0 && scenario->catches; p++)
            rc = plan_pair(trials, scenario, &pairs[p]);
        for (uint32_t i = 0; i < trials_share(trials, SIGNALS) && rc == 0 && scenario->catches; i++)
            rc = plan_hang_up(trials, scenario, i);
        if (rc == 0 && scenario->catches)
            rc = plan_ignored(trials, scenario);
    }
    return rc;
}
