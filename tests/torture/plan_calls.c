/* Failing calls: the Nth of its kind, or all from the Nth on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/torture/trial.h"

#define LIBRARY_SHARE 200u
#define BAD_INPUT (CODE(USAGE) | CODE(DATA))

enum lasting { ONCE, LASTING, BOTH };

/* How a call fails, and the exit codes that are permitted besides 0. An interrupted or short call must not make the
 * program fail. */
struct failure {
    enum call call;
    int action;
    enum lasting lasting;
    uint64_t codes;
    const char *word, *other_word;
};

static const char *const call_names[CALL_COUNT] = {
    [CALL_MEMORY] = "memory", [CALL_MMAP] = "mmap", [CALL_THREAD] = "thread", [CALL_OPEN] = "open",
    [CALL_STAT] = "stat", [CALL_READ] = "read", [CALL_PREAD] = "pread", [CALL_WRITE] = "write",
    [CALL_SYNC] = "sync", [CALL_RENAME] = "rename", [CALL_UNLINK] = "unlink", [CALL_LOCK] = "lock",
    [CALL_MKDIR] = "mkdir",
};

static const struct failure failures[] = {
    { CALL_MEMORY, ENOMEM, BOTH, CODE(MEMORY), "memory", NULL },
    { CALL_MMAP, ENOMEM, BOTH, CODE(MEMORY), "memory", NULL },
    { CALL_THREAD, EAGAIN, BOTH, CODE(MEMORY), "thread", NULL },
    { CALL_OPEN, EACCES, BOTH, BAD_INPUT | CODE(OUTPUT) | CODE(MEMORY), "denied", NULL },
    { CALL_OPEN, EMFILE, BOTH, BAD_INPUT | CODE(OUTPUT) | CODE(MEMORY), "open files", NULL },
    { CALL_OPEN, EIO, ONCE, BAD_INPUT | CODE(OUTPUT) | CODE(MEMORY), "output error", NULL },
    { CALL_OPEN, ACTION_KILL, ONCE, 0, NULL, NULL },
    { CALL_STAT, EACCES, BOTH, BAD_INPUT | CODE(OUTPUT), "denied", NULL },
    { CALL_STAT, EIO, ONCE, BAD_INPUT | CODE(OUTPUT), "output error", NULL },
    { CALL_READ, EIO, BOTH, BAD_INPUT, "output error", NULL },
    { CALL_READ, EINTR, ONCE, 0, NULL, NULL },
    { CALL_READ, ACTION_SHORT, BOTH, 0, NULL, NULL },
    { CALL_PREAD, EIO, BOTH, BAD_INPUT | CODE(OUTPUT), "output error", NULL },
    { CALL_PREAD, EINTR, ONCE, 0, NULL, NULL },
    { CALL_PREAD, ACTION_SHORT, BOTH, 0, NULL, NULL },
    { CALL_WRITE, ENOSPC, BOTH, CODE(OUTPUT), "no space", NULL },
    { CALL_WRITE, EIO, BOTH, CODE(OUTPUT), "output error", NULL },
    { CALL_WRITE, EDQUOT, ONCE, CODE(OUTPUT), "quota", NULL },
    { CALL_WRITE, EINTR, ONCE, 0, NULL, NULL },
    { CALL_WRITE, ACTION_SHORT, BOTH, 0, NULL, NULL },
    { CALL_WRITE, ACTION_KILL, ONCE, 0, NULL, NULL },
    { CALL_SYNC, EIO, BOTH, CODE(OUTPUT), "output error", NULL },
    { CALL_SYNC, ENOSPC, ONCE, CODE(OUTPUT), "no space", NULL },
    { CALL_SYNC, EDQUOT, ONCE, CODE(OUTPUT), "quota", NULL },
    { CALL_SYNC, ACTION_KILL, ONCE, 0, NULL, NULL },
    { CALL_RENAME, EACCES, BOTH, CODE(OUTPUT), "denied", NULL },
    { CALL_RENAME, EIO, ONCE, CODE(OUTPUT), "output error", NULL },
    { CALL_RENAME, ENOSPC, ONCE, CODE(OUTPUT), "no space", NULL },
    { CALL_RENAME, EDQUOT, ONCE, CODE(OUTPUT), "quota", NULL },
    { CALL_RENAME, ACTION_KILL, ONCE, 0, NULL, NULL },
    { CALL_UNLINK, EACCES, BOTH, CODE(OUTPUT), "denied", NULL },
    { CALL_UNLINK, ACTION_KILL, ONCE, 0, NULL, NULL },
    { CALL_LOCK, ENOLCK, BOTH, 0, NULL, NULL },
    { CALL_LOCK, EOPNOTSUPP, ONCE, 0, NULL, NULL },
    { CALL_LOCK, ENOSYS, ONCE, 0, NULL, NULL },
    { CALL_LOCK, EINTR, ONCE, 0, NULL, NULL },
    { CALL_LOCK, EWOULDBLOCK, ONCE, CODE(OUTPUT), "another", NULL },
    { CALL_MKDIR, EACCES, BOTH, CODE(OUTPUT), "denied", NULL },
    { CALL_MKDIR, ACTION_KILL, ONCE, 0, NULL, NULL },
};

static const char *action_name(int action)
{
    return action == ACTION_KILL ? "killed there" : action == ACTION_SHORT ? "short" : strerrorname_np(action);
}

/* How many of `count` calls fail, one in each trial. oneDNN allocates about ten thousand times while it plans, so of
 * calls in libraries never more than LIBRARY_SHARE. */
static uint32_t trials_of(const struct trials *trials, enum caller caller, uint32_t count)
{
    const uint32_t share = caller == CALLER_PROGRAM || trials->share != 0 ? trials->share : LIBRARY_SHARE;
    return share == 0 || count < share ? count : share;
}

/* Which of `count` calls fails in the index-th trial of a row. */
static uint32_t choose_number(const struct trials *trials, const struct trial *trial, uint32_t count, uint32_t wanted,
                              uint32_t index)
{
    if (wanted == count)
        return index + 1;
    char line[sizeof(trial->group) + sizeof(trial->what) + 32];
    snprintf(line, sizeof(line), "%s %s %s", trial->scenario->name, trial->group, trial->what);
    return 1 + (uint32_t)trials_random(trials, line, index, count);
}

static int add_line(struct trials *trials, const struct scenario *scenario, const struct failure *failure,
                    enum caller caller, bool lasting, uint32_t count)
{
    /* A library may handle its failures in any way, and even end the process. Only files are checked then. */
    const bool is_ours = caller == CALLER_PROGRAM;
    struct trial trial = {
        .scenario = scenario,
        .has_faults = true,
        .promise = { .codes = failure->codes | CODE(OK) | (is_ours ? 0 : CODE(INTERNAL)), .word = failure->word,
                    .other_word = failure->other_word, .is_silent = !is_ours,
                    .may_die = !is_ours || failure->action == ACTION_KILL,
                    .may_leave = !is_ours || (failure->call == CALL_UNLINK && failure->action > 0) ||
                                 failure->action == EWOULDBLOCK },
        .order = { .call = failure->call, .caller = caller, .lasting = lasting, .action = failure->action },
    };
    snprintf(trial.group, sizeof(trial.group), "%s%s", call_names[failure->call],
             caller == CALLER_LIBRARY ? " in libraries" : "");
    snprintf(trial.what, sizeof(trial.what), "%s%s", action_name(failure->action), lasting ? " from then on" : "");
    const uint32_t wanted = trials_of(trials, caller, count);
    int rc = 0;
    for (uint32_t i = 0; i < wanted && rc == 0; i++) {
        trial.order.number = choose_number(trials, &trial, count, wanted, i);
        rc = trials_add(trials, &trial, "call %u", trial.order.number);
    }
    return rc;
}

/* A sanitizer replaces the allocation functions, and does not expect its own calls to fail. */
static bool is_possible(const struct trials *trials, const struct failure *failure, enum caller caller)
{
    return !trials->has_sanitizer ||
           (failure->call != CALL_MEMORY && failure->call != CALL_MMAP && caller == CALLER_PROGRAM);
}

static int plan_scenario(struct trials *trials, const struct scenario *scenario)
{
    struct board counted;
    int rc = trial_count_calls(trials, scenario, &counted);
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]) && rc == 0; i++) {
        const struct failure *const failure = &failures[i];
        for (int caller = 0; caller < CALLER_COUNT && rc == 0; caller++) {
            const bool can_fail = is_possible(trials, failure, (enum caller)caller);
            const uint32_t count = can_fail ? counted.calls[failure->call][caller] : 0;
            if (failure->lasting != LASTING)
                rc = add_line(trials, scenario, failure, (enum caller)caller, false, count);
            if (failure->lasting != ONCE && rc == 0)
                rc = add_line(trials, scenario, failure, (enum caller)caller, true, count);
        }
    }
    return rc;
}

int plan_calls(struct trials *trials)
{
    int rc = 0;
    for (uint32_t i = 0; i < scenario_count && rc == 0; i++)
        if (!scenarios[i].is_endless && stand_allows(trials->stand, &scenarios[i]))
            rc = plan_scenario(trials, &scenarios[i]);
    return rc;
}
