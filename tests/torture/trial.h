/* A trial: a scenario, what is done to it, and what may result. */
#ifndef PIPETRAIN_TEST_TRIAL_H
#define PIPETRAIN_TEST_TRIAL_H

#include "tests/torture/board.h"
#include "tests/torture/judge.h"
#include "tests/torture/power_log.h"

#define FIRST_PHASE "start"     /* before it the dynamic loader runs, where signals have their default effect */

struct trial {
    const struct scenario *scenario;
    char group[32], what[48];       /* its row of the report */
    char name[160];                 /* unique; -t selects by it */
    struct promise promise;
    struct order order;             /* number 0: no call fails */
    bool has_faults;
    enum outlet out, err;
    struct child_limit limit;
    bool has_limit;
    uint64_t group_bytes;           /* memory limit of its control group; 0: it has none */
    const char *phase;              /* signals are sent after this phase begins; NULL: after the start */
    uint64_t delay_us;              /* and after this time */
    int signals[2];                 /* sent one after the other, 0: none */
    uint64_t gap_us;
    int ignored_signal;             /* from the start of the process, 0: none */
    bool hangs_up;
    uint64_t disk_bytes;            /* size of a file system of its own for the results; 0: none */
    bool is_read_only;              /* that file system */
    const struct power_log *power;  /* a power cut left its folder, and only the next run is executed; or NULL */
    struct power_cut cut;
};

/* All trials, and what they have in common. */
struct trials {
    const struct stand *stand;
    struct trial *list;
    uint32_t count;
    uint32_t share;                 /* most trials of a row of the report and a scenario; 0: all */
    uint64_t seed;
    uint64_t deadline_us;           /* after which a program counts as hanging */
    uint32_t patience;              /* factor for deadlines */
    bool has_sanitizer, has_disks, has_groups;
    const uint64_t *took_us;        /* of each scenario, undisturbed */
};

/* Add a copy of `trial`, unless its scenario cannot be run. Its name consists of scenario, group, what, and a detail as
 * of printf, which may be empty. 0 or -ENOMEM. */
int trials_add(struct trials *trials, const struct trial *trial, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));
/* How many of `count` possible trials of a row are run. */
uint64_t trials_share(const struct trials *trials, uint64_t count);
/* A random number below `bound`, which depends on the seed, `of` and `index` only. */
uint64_t trials_random(const struct trials *trials, const char *of, uint64_t index, uint64_t bound);

/* The result of a trial. */
struct outcome {
    char verdict[VERDICT_BYTES];    /* empty: it held */
    bool was_run;                   /* its call was made, or its program loaded */
    bool has_died;                  /* a signal ended it */
};

/* Run a trial in a folder of its own, WORK/try/NUMBER, which is moved to WORK/broken if it fails. */
void trial_run(const struct trials *trials, uint32_t number, struct outcome *outcome_out);
/* Run a scenario in a new folder, which stays, and log its file operations. 0 or a negative errno. */
int trial_record(const struct trials *trials, const struct scenario *scenario, const char *folder,
                 struct power_log **log_out);
/* Run a scenario and count its calls. 0 or a negative errno. */
int trial_count_calls(const struct trials *trials, const struct scenario *scenario, struct board *counted_out);

/* Each adds its trials. 0 or a negative errno. */
int plan_calls(struct trials *trials);      /* every call that can fail */
int plan_kills(struct trials *trials);      /* the process killed at any moment */
int plan_signals(struct trials *trials);    /* signals at any moment and in every phase */
int plan_streams(struct trials *trials);    /* closed, full and unread standard streams */
int plan_limits(struct trials *trials);     /* resource limits */
int plan_groups(struct trials *trials);     /* a control group with little memory */
int plan_power(struct trials *trials);      /* power cuts: what is on the disk then */
int plan_disks(struct trials *trials);      /* results on a file system that is full or read only */

#endif
