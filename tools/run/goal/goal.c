/* Goals of a run, behind every batch. */
#include "tools/run/goal/goal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/log.h"

void goal_tell_unused(const struct settings *settings)
{
    const struct train_settings *const train = &settings->train;
    const struct { const char *key; bool is_set; } keys[] = {
        { "train.stop_at", train->stop_at > 0 },
        { "train.patience", train->patience > 0 },
        { "checkpoint.keep_best", settings->checkpoint.keep_best },
    };
    char words[80] = "";
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].is_set)
            snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", words[0] != '\0' ? ", " : "",
                     keys[i].key);
    if (words[0] != '\0')
        log_message(LOG_RUN, "%s: not looked at, as evaluations say nothing with %s", words,
                    settings->input.source == INPUT_SYNTHETIC ? "input.source = synthetic" : "devices.kind = null");
}

static enum ending find_ending(const struct goal *goal, bool is_evaluated)
{
    const enum ending ending = is_evaluated ? ending_of_course(goal->train, goal->course) : ENDING_NONE;
    return ending != ENDING_NONE ? ending : ending_of_time(goal->train, clock_now_ns() - goal->process_start_ns);
}

static void tell_lossless(const struct tally *evaluation)
{
    if (evaluation->lossless > 0)
        log_message(LOG_RUN, "the loss of batches with %" PRIu64 " of the %" PRIu64 " samples in this evaluation is "
                    "not finite: the others' is told", evaluation->lossless, evaluation->images);
}

static void tell_divergence(const struct goal *goal, const struct course_epoch *epoch)
{
    log_message(LOG_RUN,
                "the run diverges: for a whole epoch its accuracy (%.1f %%) is that of guessing, and its loss (%.4g) "
                "above the first one (%.4g): try a smaller train.learning_rate than %g, train.warmup_epochs or "
                "train.clip_norm, and look at the labels", 100 * epoch->accuracy, epoch->loss,
                (double)goal->course->first_loss / 1e6, goal->train->learning_rate);
}

static void follow_training(struct goal *goal, const struct batch_slice *slice)
{
    const struct tally *const training = account_phase(goal->account, PHASE_TRAIN);
    course_note_first(goal->course, tally_loss(training));
    const struct course_epoch epoch = { tally_loss(training), tally_accuracy(training), training->steps,
                                        goal->classes };
    if (slice->last_of_phase && course_add_epoch(goal->course, &epoch))
        tell_divergence(goal, &epoch);
}

bool goal_follow(struct goal *goal, const struct batch_slice *slice)
{
    const struct tally *const evaluation = account_phase(goal->account, PHASE_EVALUATE);
    const bool is_evaluated = slice->phase == PHASE_EVALUATE && slice->last_of_phase && goal->is_told;
    if (is_evaluated) {
        tell_lossless(evaluation);
        course_add_evaluation(goal->course, evaluation->correct, evaluation->images, account_step(goal->account));
    }
    if (slice->phase == PHASE_TRAIN && goal->is_told)
        follow_training(goal, slice);
    if (goal->ending != ENDING_NONE)
        return false;
    goal->ending = find_ending(goal, is_evaluated);
    ending_tell(goal->ending, goal->train, goal->course, goal->words, sizeof(goal->words));
    return goal->ending != ENDING_NONE;
}
