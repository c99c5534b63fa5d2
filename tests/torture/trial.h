/* One try: a scenario, what is done to it, and what may come of it. */
#ifndef PIPETRAIN_TEST_TRIAL_H
#define PIPETRAIN_TEST_TRIAL_H

#include "tests/torture/board.h"
#include "tests/torture/judge.h"
#include "tests/torture/power_log.h"

#define FIRST_PHASE "start"     /* what comes before it is the system's loader, which heeds no signals */

struct trial {
    const struct scenario *scenario;
    char group[32], what[48];       /* the line of the report it belongs to */
    char name[160];                 /* of this very try: --only finds it by this */
    struct promise promise;
    struct order order;             /* number 0: no call fails */
    bool has_faults;
    enum outlet out, err;
    struct child_limit limit;
    bool has_limit;
    uint64_t group_bytes;           /* of memory in a control group of its own; 0: in none */
    const char *phase;              /* what is done waits for this one; NULL: it is done from the start */
    uint64_t delay_us;              /* and so long after */
    int signals[2];                 /* one after the other, 0: none */
    uint64_t gap_us;
    int ignored_signal;             /* from the start of the process, 0: none */
    bool hangs_up;
    uint64_t disk_bytes;            /* of the file system its results are on; 0: that of all others */
    bool is_read_only;              /* that one */
    const struct power_log *power;  /* nothing is run: its folder is what a power cut left; NULL: it is run */
    struct power_cut cut;
};

/* The tries of a torture. */
struct trials {
    const struct stand *stand;
    struct trial *list;
    uint32_t count;
    uint32_t share;                 /* of each line of the report and scenario at most so many; 0: all */
    uint64_t seed;
    uint64_t deadline_us;           /* of a program that is tried: an alarm against hangs */
    uint32_t patience;              /* deadlines are so many times longer */
    bool has_sanitizer, has_disks, has_groups;
    const uint64_t *took_us;        /* by scenario */
};

/* Add a copy of `trial`, unless its scenario cannot be run. Its name consists of scenario, group, what, and a detail as
 * of printf, which may be empty. 0 or -ENOMEM. */
int trials_add(struct trials *trials, const struct trial *trial, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));
/* How many of `count` possible trials of a line are run. */
uint64_t trials_share(const struct trials *trials, uint64_t count);
/* A random number below `bound`, which depends on the seed, `of` and `index` only. */
uint64_t trials_random(const struct trials *trials, const char *of, uint64_t index, uint64_t bound);

/* What came of a try. */
struct outcome {
    char verdict[VERDICT_BYTES];    /* empty: it held */
    bool was_run;                   /* what it is about did happen: its call came, its program was loaded */
    bool has_died;                  /* a signal ended it */
};

/* Run it in a folder of its own, WORK/try/NUMBER; when it is broken the folder is moved to WORK/broken. */
void trial_run(const struct trials *trials, uint32_t number, struct outcome *outcome_out);
/* Run a scenario in a new folder and note what it does to the disk; the log's folder stays. 0 or a negative errno. */
int trial_record(const struct trials *trials, const struct scenario *scenario, const char *folder,
                 struct power_log **log_out);
/* Run a scenario and count its calls. 0 or a negative errno. */
int trial_count_calls(const struct trials *trials, const struct scenario *scenario, struct board *counted_out);

/* The walks: each adds its tries. 0 or a negative errno. */
int plan_calls(struct trials *trials);      /* every call that can fail */
int plan_kills(struct trials *trials);      /* the process killed at any moment */
int plan_signals(struct trials *trials);    /* signals at any moment and in every phase */
int plan_streams(struct trials *trials);    /* standard streams that lead nowhere */
int plan_limits(struct trials *trials);     /* limits of what the system gives a process */
int plan_groups(struct trials *trials);     /* a control group with little memory */
int plan_power(struct trials *trials);      /* power cuts: what is on the disk then */
int plan_disks(struct trials *trials);      /* results on a file system that is full or read only */

#endif
