/* Check that a program under test ended, reported and left its files as promised. */
#ifndef PIPETRAIN_TEST_JUDGE_H
#define PIPETRAIN_TEST_JUDGE_H

#include "stage/stop.h"
#include "tests/torture/scenario.h"

#define VERDICT_BYTES 240u
#define CODE(name) (UINT64_C(1) << EXIT_CODE_##name)     /* of promise.codes */

/* The permitted results of a trial. */
struct promise {
    uint64_t codes;             /* bit c: exit code c < 64 */
    bool may_stop, may_interrupt;   /* 75, 130 */
    const char *word, *other_word;  /* the message of a failure contains one of them; NULL: any message will do */
    bool is_silent;             /* its messages cannot be read, or are not checked */
    bool may_die;               /* by a signal that kills, or because a library ends the process */
    bool may_lose_reader;       /* may die by SIGPIPE */
    bool may_leave;             /* it may leave temporary files, which it could not remove */
    bool may_be_short;          /* it may have been asked to end early */
    bool is_second;             /* it runs after a killed one and may replace its results */
};

/* verdict_out: empty if all promises were kept, else the first that was not. */
void judge_trial(const struct stand *stand, const struct scenario *scenario, const struct promise *promise,
                 const char *folder, const struct child_end *end, char verdict_out[VERDICT_BYTES]);

#endif
