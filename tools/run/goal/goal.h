/* What the settings want of a run besides its steps, looked at behind every batch. Used by main only; allocates
 * nothing. */
#ifndef PIPETRAIN_GOAL_H
#define PIPETRAIN_GOAL_H

#include "tools/run/account.h"
#include "tools/run/goal/ending.h"

struct goal {
    const struct train_settings *train;     /* lent, as is all of this */
    struct course *course;
    const struct account *account;
    uint64_t process_start_ns;          /* on clock_now_ns's clock */
    uint32_t classes;
    bool is_told;                       /* something is computed, of real labels: else evaluations say nothing */
    enum ending ending;                 /* why the run ends; ENDING_NONE so far */
    char words[192];                    /* the same for people */
};

/* Where evaluations say nothing: tell which of the settings that go by them are there, and not looked at. */
void goal_tell_unused(const struct settings *settings);
/* The batch `span` was added to the account. A run that has diverged is told of, once. An evaluation that is complete
 * goes to the course. True: the run ends behind it, for a reason that was not there before. */
bool goal_follow(struct goal *goal, const struct batch_slice *slice);

#endif
