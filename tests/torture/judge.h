/* Whether what a tried command left behind is what was promised. */
#ifndef PIPETRAIN_TEST_JUDGE_H
#define PIPETRAIN_TEST_JUDGE_H

#include "stage/stop.h"
#include "tests/torture/scenario.h"

#define VERDICT_BYTES 240u
#define CODE(name) (UINT64_C(1) << EXIT_CODE_##name)     /* of promise.codes */

/* What may come of a try. */
struct promise {
    uint64_t codes;             /* bit c: exit code c < 64 */
    bool may_stop, may_interrupt;   /* 75, 130 */
    const char *word, *other_word;  /* one of them stands in the message of a failure; NULL: any message */
    bool is_silent;             /* nobody can read what it says */
    bool may_die;               /* by a signal that was meant to kill, or by a library's hand */
    bool may_leave;             /* temporary files, which it could not remove */
    bool may_be_short;          /* it may have been told to end */
    bool is_second;             /* the run before may have left results of its own, these replace them */
};

/* An empty text when all promises were kept, else what was broken. */
void judge_try(const struct stand *stand, const struct scenario *scenario, const struct promise *promise,
               const char *folder, const struct child_end *end, char verdict_out[VERDICT_BYTES]);

#endif
