/* Power cuts: a program's file operations are recorded once, and each trial begins with a state in which a cut may
 * leave the disk: all files there must be whole, and the same command must continue from them. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tests/torture/tree.h"
#include "tests/torture/trial.h"

#define CUTS 60u        /* most of a row and a scenario */

static const char *const unsynced_words[UNSYNCED_COUNT] = {
    [UNSYNCED_LOST] = "what is not synced lost", [UNSYNCED_WRITTEN] = "what is not synced there",
    [UNSYNCED_TORN] = "what is not synced torn", [UNSYNCED_ZEROS] = "what is not synced zeros",
};

/* The rows of a scenario: how many states each has, and how many have been visited. */
struct lines {
    struct trials *trials;
    struct trial trial;
    uint64_t all[2][UNSYNCED_COUNT], seen[2][UNSYNCED_COUNT];
    bool adds;
};

/* The states of a share are equally spaced, from a random one on. */
static bool is_of_share(const struct lines *lines, const struct power_cut *cut, uint64_t number)
{
    const uint64_t all = lines->all[cut->in_order][cut->unsynced];
    const uint64_t share = trials_share(lines->trials, all < CUTS ? all : CUTS), every = all / share;
    char line[64];
    snprintf(line, sizeof(line), "%s power %d", lines->trial.scenario->name, cut->in_order);
    const uint64_t first = trials_random(lines->trials, line, (uint64_t)cut->unsynced, every);
    return number % every == first && number / every < share;
}

static int add_cut(void *arg, const struct power_cut *cut)
{
    struct lines *const lines = arg;
    struct trial *const trial = &lines->trial;
    const uint64_t number = lines->seen[cut->in_order][cut->unsynced]++;
    if (!lines->adds || !is_of_share(lines, cut, number))
        return 0;
    trial->cut = *cut;
    snprintf(trial->group, sizeof(trial->group), "power cut%s", cut->in_order ? "" : ", names in any order");
    snprintf(trial->what, sizeof(trial->what), "%s", unsynced_words[cut->unsynced]);
    return trials_add(lines->trials, trial, "after operation %u, names %" PRIx64, cut->ops, cut->names);
}

static int add_cuts(struct trials *trials, const struct scenario *scenario, const struct power_log *log)
{
    struct lines lines = { .trials = trials, .trial = { .scenario = scenario, .power = log,
                                                        .promise = { .may_die = true, .is_silent = true } } };
    int rc = power_log_visit(log, add_cut, &lines);
    memcpy(lines.all, lines.seen, sizeof(lines.all));
    memset(lines.seen, 0, sizeof(lines.seen));
    lines.adds = true;
    if (rc == 0)
        rc = power_log_visit(log, add_cut, &lines);
    return rc;
}

struct pair { const char *one, *other; };

static int compare_file(void *arg, const char *file)
{
    const struct pair *const pair = arg;
    if (strcmp(file, "out") == 0 || strcmp(file, "err") == 0)
        return 0;
    struct content one = content_read(pair->one, file), other = content_read(pair->other, file);
    const bool is_equal = content_equal(&one, &other);
    content_release(&one);
    content_release(&other);
    if (!is_equal)
        fprintf(stderr, "torture: %s/%s is not what the log makes of it\n", pair->one, file);
    return is_equal ? 0 : -EPROTO;
}

/* Check that the log is complete: all operations together must give the files that the process left. */
static int check_log(const struct power_log *log, const char *folder)
{
    char remade[PATH_MAX + 8];
    const struct power_cut all = { .ops = power_log_ops(log), .names = UINT64_MAX, .unsynced = UNSYNCED_WRITTEN };
    snprintf(remade, sizeof(remade), "%s.made", folder);
    int rc = power_log_write(log, &all, remade);
    if (rc == 0)
        rc = tree_visit(folder, compare_file, &(struct pair){ folder, remade });
    if (rc == 0)
        rc = tree_visit(remade, compare_file, &(struct pair){ remade, folder });
    tree_remove(remade);
    return rc;
}

static int plan_scenario(struct trials *trials, const struct scenario *scenario, struct power_log **log_out)
{
    char folder[PATH_MAX], name[64];
    snprintf(name, sizeof(name), "power-%s", scenario->name);
    stand_folder(trials->stand, "try", name, folder, sizeof(folder));
    int rc = trial_record(trials, scenario, folder, log_out);
    if (rc == 0)
        rc = check_log(*log_out, folder);
    tree_remove(folder);
    return rc == 0 ? add_cuts(trials, scenario, *log_out) : rc;
}

/* Not with sanitizers, whose functions come before those of a preloaded library. */
int plan_power(struct trials *trials)
{
    static struct power_log *logs[32];      /* used by the trials */
    int rc = 0;
    for (uint32_t s = 0; s < scenario_count && rc == 0 && !trials->has_sanitizer; s++)
        if (scenarios[s].outlasts_power && stand_allows(trials->stand, &scenarios[s]))
            rc = plan_scenario(trials, &scenarios[s], &logs[s]);
    return rc;
}
