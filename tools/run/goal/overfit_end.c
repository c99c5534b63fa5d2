/* The last words of a run that learns by heart. */
#include "tools/run/goal/overfit_end.h"

#include <inttypes.h>
#include <string.h>

#include "stage/stop.h"
#include "tools/text/wrapped.h"

#define FALLS 0.5       /* a loss below so much of the first one is on its way */

static bool has_batch_norm(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_BATCH_NORM)
            return true;
    return false;
}

/* What evaluation sees later than training, or never. */
static const char *find_cause(const struct settings *settings, const struct net *net)
{
    if (settings->data.validation_split > 0 || strcmp(settings->data.train, settings->data.validation) != 0)
        return "is of another set (data.validation), which nothing of this may fit";
    if (settings->train.ema > 0)
        return "is of averages of weights, which follow slowly (train.ema); more steps may be all it needs (--set "
               "train.epochs)";
    if (has_batch_norm(net))
        return "goes by the running statistics of batch normalisation, which follow slowly; more steps may be all it "
               "needs (--set train.epochs), else look at what it does to images (--describe)";
    return "sees images in another way: look at what is done to them (--describe)";
}

static void tell_evaluation(const struct course *course, const struct settings *settings, const struct net *net,
                            FILE *out)
{
    wrapped_print(out, "overfit   in training all samples are right and in evaluation %.2f %%: that %s",
                  100 * course_best(course), find_cause(settings, net));
}

static void tell_progress(const struct goal *goal, double loss, FILE *out)
{
    wrapped_print(out, "overfit   not learnt yet: the loss fell from %.4g to %.4g and %.2f %% are right in "
                       "evaluation. Train longer (--set train.epochs=%" PRId64 ") or with a higher rate (--set "
                       "train.learning_rate=%g)",
                  (double)goal->course->first_loss / 1e6, loss, 100 * course_best(goal->course),
                  4 * goal->train->epochs, 3 * goal->train->learning_rate);
}

static void tell_nothing(const struct goal *goal, double loss, FILE *out)
{
    wrapped_print(out, "overfit   not learnt: the loss went from %.4g to %.4g and %.2f %% are right in evaluation. "
                       "Try rates ten times lower and higher (now %g); see that something learns (model.freeze), that "
                       "images that are alike have one label, and what the network is given (--describe)",
                  (double)goal->course->first_loss / 1e6, loss, 100 * course_best(goal->course),
                  goal->train->learning_rate);
}

int overfit_tell(const struct goal *goal, const struct settings *settings, const struct net *net, FILE *out)
{
    const struct course *const course = goal->course;
    const struct tally *const training = account_phase(goal->account, PHASE_TRAIN);
    const double loss = tally_loss(training);
    const bool is_learnt = course->best_images > 0 && course->best_correct == course->best_images;
    if (is_learnt)
        wrapped_print(out, "overfit   all %" PRIu64 " samples are right after %" PRIu64 " steps: this network can "
                           "learn this data", course->best_images, course->best_step);
    else if (training->correct == training->images)
        tell_evaluation(course, settings, net, out);
    else if (loss < FALLS * (double)course->first_loss / 1e6)
        tell_progress(goal, loss, out);
    else
        tell_nothing(goal, loss, out);
    return is_learnt ? EXIT_CODE_OK : EXIT_CODE_UNLEARNT;
}
