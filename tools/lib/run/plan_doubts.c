/* Two tables: settings that are longer than the run, which are reported in one line; and other combinations, with a
 * line for each. */
#include "tools/lib/run/plan_doubts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"
#include "tools/lib/config/intervals.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/options.h"
#include "tools/lib/text/number.h"

#define LINE_BYTES 700u

struct doubts {
    const struct run_plan *plan;
    const struct settings *settings;
    const struct net *net;
    double per_epoch, steps;    /* steps of an epoch and of the run */
};

static enum origin origin_of(const struct doubts *doubts, enum section section, const char *key)
{
    return doubts->settings->origins[option_index(option_find(section, key))].origin;
}

/* Did the user set it? The run.conf of an earlier run sets everything. */
static bool is_set(const struct doubts *doubts, enum section section, const char *key)
{
    return origin_of(doubts, section, key) > (options_are_all_set(doubts->settings) ? ORIGIN_FILE : ORIGIN_MODEL);
}

static bool is_train_set(const struct doubts *doubts, const char *key)
{
    return is_set(doubts, SECTION_TRAIN, key);
}

/* ---- longer than the run ---- */

/* The number of steps after which a setting has its effect; 0: it has no effect in any run. */

static double warmup_steps(const struct doubts *doubts)
{
    return doubts->plan->learning_rate.warmup;
}

static double boundary_steps(const struct doubts *doubts)
{
    const struct learning_rate *const rate = &doubts->plan->learning_rate;
    const bool is_used = rate->schedule == RATE_PIECEWISE && rate->boundary_count > 0;
    return is_used ? rate->boundaries[rate->boundary_count - 1] : 0;
}

static double decay_steps(const struct doubts *doubts)
{
    const struct learning_rate *const rate = &doubts->plan->learning_rate;
    return rate->schedule == RATE_EXPONENTIAL && rate->staircase ? ceil(rate->period) + 1 : 0;
}

static double schedule_steps(const struct doubts *doubts)
{
    const struct learning_rate *const rate = &doubts->plan->learning_rate;
    const bool ends = rate->schedule == RATE_COSINE || rate->schedule == RATE_POLYNOMIAL ||
                      rate->schedule == RATE_ONE_CYCLE;
    return ends && doubts->settings->train.schedule_epochs > 0 ? rate->last : 0;
}

static double average_steps(const struct doubts *doubts)
{
    return doubts->settings->train.ema > 0 ? round(1 / (1 - doubts->settings->train.ema)) : 0;
}

/* Patience counts from the first evaluation, which is always the best so far. */
static double patience_steps(const struct doubts *doubts)
{
    const double epochs = (double)doubts->settings->train.patience;
    return epochs > 0 ? (epochs + 1) * doubts->per_epoch : 0;
}

static double checkpoint_steps(const struct doubts *doubts)
{
    return (double)doubts->settings->checkpoint.steps;
}

static double averaging_steps(const struct doubts *doubts)
{
    const struct sync_settings *const sync = &doubts->settings->sync;
    return sync->mode == SYNC_AVERAGING && doubts->plan->schedule.towers > 1 ? (double)sync->every : 0;
}

static double histogram_steps(const struct doubts *doubts)
{
    struct histogram_steps steps = { .every = 0 };
    (void)histogram_steps_read(doubts->settings->report.histograms, &steps);
    return (double)steps.every;
}

static void print_longer(const struct doubts *doubts)
{
    static const struct {
        enum section section;
        const char *key;
        double (*needs)(const struct doubts *doubts);
    } rows[] = {
        { SECTION_TRAIN, "warmup_epochs", warmup_steps },   { SECTION_TRAIN, "boundaries", boundary_steps },
        { SECTION_TRAIN, "decay_epochs", decay_steps },     { SECTION_TRAIN, "ema", average_steps },
        { SECTION_TRAIN, "patience", patience_steps },      { SECTION_CHECKPOINT, "every", checkpoint_steps },
        { SECTION_SYNC, "every", averaging_steps },         { SECTION_REPORT, "histograms", histogram_steps },
        { SECTION_TRAIN, "schedule_epochs", schedule_steps },
    };
    char words[LINE_BYTES] = "";
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const double needed = rows[i].needs(doubts);
        const struct option_row *const row = option_find(rows[i].section, rows[i].key);
        const size_t used = strlen(words);
        struct option_text value;
        if (needed > doubts->steps && is_set(doubts, rows[i].section, rows[i].key))
            snprintf(words + used, sizeof(words) - used, "%s%s.%s = %.40s (%s steps)", used > 0 ? ", " : "",
                     section_name(rows[i].section), rows[i].key, option_format(row, doubts->settings, &value),
                     number_grouped(needed < 1e15 ? (uint64_t)ceil(needed) : UINT64_MAX).text);
    }
    if (words[0] != '\0')
        log_message(LOG_RUN, "the run ends after %s steps, before what these need: %s",
                    number_grouped((uint64_t)doubts->steps).text, words);
}

/* ---- other combinations: false, or the words ---- */

static bool is_cut(const struct doubts *doubts, char *words)
{
    const struct train_settings *const train = &doubts->settings->train;
    const enum origin steps = origin_of(doubts, SECTION_TRAIN, "steps");
    const enum origin epochs = origin_of(doubts, SECTION_TRAIN, "epochs");
    const bool is_repeated = options_are_all_set(doubts->settings) && steps == ORIGIN_FILE && epochs == ORIGIN_FILE;
    const double by_epochs = doubts->per_epoch * (double)train->epochs;
    if (train->steps == 0 || epochs <= ORIGIN_MODEL || is_repeated || by_epochs == (double)train->steps)
        return false;
    if (by_epochs < (double)train->steps)
        snprintf(words, LINE_BYTES, "train.epochs = %" PRId64 " ends the run after step %s, before train.steps = %"
                 PRId64 ": leave out train.epochs to do all of them", train->epochs,
                 number_grouped((uint64_t)by_epochs).text, train->steps);
    else if (steps > epochs)
        return false;       /* a shorter run of the same configuration file is intended */
    else
        snprintf(words, LINE_BYTES, "train.steps = %" PRId64 " ends the run before its train.epochs = %" PRId64 " (%s "
                                    "steps)", train->steps, train->epochs, number_grouped((uint64_t)by_epochs).text);
    return true;
}

/* Is the rate 0, or that of the end of the one-cycle schedule, a 250,000th of its largest rate, which has no visible
 * effect? */
static bool is_idle(const struct learning_rate *rate, uint64_t step)
{
    const double at = learning_rate_at(rate, step);
    return at == 0 || (rate->schedule == RATE_ONE_CYCLE && (double)step >= rate->last &&
                       at <= rate->base / (RATE_CYCLE_START * RATE_CYCLE_END));
}

static bool is_small(const struct learning_rate *rate, uint64_t step)
{
    return learning_rate_at(rate, step) < rate->base / 1000;
}

/* The first of the final steps for which are_so is true; `steps`: there are none. Binary search: a schedule that has
 * fallen does not rise again. */
static uint64_t find_last_steps(const struct learning_rate *rate, uint64_t steps,
                                bool (*are_so)(const struct learning_rate *rate, uint64_t step))
{
    uint64_t before = rate->warmup > 0 ? (uint64_t)ceil(rate->warmup) - 1 : 0, first = steps;
    if (steps == 0 || before >= steps || !are_so(rate, steps - 1))
        return steps;
    if (before > 0 && are_so(rate, before))
        return 1;               /* the rate is too small even at the end of the warm-up */
    while (first - before > 1) {
        const uint64_t middle = before + (first - before) / 2;
        if (are_so(rate, middle))
            first = middle;
        else
            before = middle;
    }
    return first;
}

static bool has_no_rate(const struct doubts *doubts, char *words)
{
    static const char *const advice[RATE_SCHEDULE_COUNT] = {
        [RATE_PIECEWISE] = "factors above 0", [RATE_EXPONENTIAL] = "decay_factor above 0",
        [RATE_COSINE] = "schedule_epochs to those of the run, or final_rate",
        [RATE_POLYNOMIAL] = "schedule_epochs to those of the run, or final_rate",
        [RATE_ONE_CYCLE] = "schedule_epochs to those of the run",
    };
    const struct learning_rate *const rate = &doubts->plan->learning_rate;
    const uint64_t steps = (uint64_t)doubts->steps, idle = find_last_steps(rate, steps, is_idle);
    const char *const help = advice[rate->schedule];
    const bool is_ours = is_train_set(doubts, "schedule_epochs") || is_train_set(doubts, "factors") ||
                         is_train_set(doubts, "decay_factor");
    if (rate->base == 0 || help == NULL || !is_ours || steps - idle < 2)
        return false;
    snprintf(words, LINE_BYTES, "train.schedule: after step %s of %s the learning rate is %.2g, so nothing more is "
             "learnt: set train.%s", number_grouped(idle).text, number_grouped(steps).text,
             learning_rate_at(rate, steps - 1), help);
    return true;
}

/* Is the rate very small for most of the steps? Usual schedules, too, end with a ten-thousandth of the first rate, but
 * only in few steps. */
static bool is_rate_lost(const struct doubts *doubts, char *words)
{
    static const char *const keys[RATE_SCHEDULE_COUNT][3] = {
        [RATE_PIECEWISE] = { "factors", "boundaries" },       [RATE_EXPONENTIAL] = { "decay_factor", "decay_epochs" },
        [RATE_INVERSE_TIME] = { "rate_decay" },               [RATE_COSINE] = { "schedule_epochs", "final_rate" },
        [RATE_POLYNOMIAL] = { "power", "schedule_epochs", "final_rate" }, [RATE_ONE_CYCLE] = { "schedule_epochs" },
    };
    const struct learning_rate *const rate = &doubts->plan->learning_rate;
    const uint64_t steps = (uint64_t)doubts->steps, first = find_last_steps(rate, steps, is_small);
    const char *ours = NULL;
    char ignored[LINE_BYTES];
    for (size_t i = 0; i < 3 && keys[rate->schedule][i] != NULL && ours == NULL; i++)
        ours = is_train_set(doubts, keys[rate->schedule][i]) ? keys[rate->schedule][i] : NULL;
    if (ours == NULL || rate->base == 0 || steps - first <= steps / 2 || has_no_rate(doubts, ignored))
        return false;
    struct option_text value;
    snprintf(words, LINE_BYTES, "train.%s = %.40s: after step %s of %s the learning rate is below a thousandth of the "
             "first, %.3g: little more is learnt", ours,
             option_format(option_find(SECTION_TRAIN, ours), doubts->settings, &value), number_grouped(first).text,
             number_grouped(steps).text, rate->base);
    return true;
}

/* Is the rate constant although the user set a schedule? A setting that is longer than the run is reported in another
 * line. */
static bool is_rate_constant(const struct doubts *doubts, char *words)
{
    const struct learning_rate *const rate = &doubts->plan->learning_rate;
    const bool decays = rate->schedule == RATE_EXPONENTIAL || rate->schedule == RATE_INVERSE_TIME;
    const bool is_longer = is_train_set(doubts, "decay_epochs") && decay_steps(doubts) > doubts->steps;
    if (!decays || !is_train_set(doubts, "schedule") || is_longer || doubts->steps < 1 ||
        rate->warmup >= doubts->steps || learning_rate_at(rate, (uint64_t)doubts->steps - 1) < rate->base * 0.999)
        return false;
    const bool is_exponential = rate->schedule == RATE_EXPONENTIAL;
    const char *const key = is_exponential && rate->factor < 1 ? "decay_epochs"
                          : is_exponential                     ? "decay_factor" : "rate_decay";
    struct option_text value;
    snprintf(words, LINE_BYTES, "train.schedule: with train.%s = %s the learning rate does not change in the %s steps "
             "of this run", key, option_format(option_find(SECTION_TRAIN, key), doubts->settings, &value),
             number_grouped((uint64_t)doubts->steps).text);
    return true;
}

/* The largest change of a weight in one step (lars: relative to the norm of its tensor), for a learning rate of 1 and
 * gradients of at most `most`. */
static double largest_step(const struct train_settings *train, double most)
{
    switch (train->optimizer) {
    case OPTIMIZER_MOMENTUM:
    case OPTIMIZER_NESTEROV: return most / (1 - train->momentum);
    case OPTIMIZER_RMSPROP: return most / sqrt(train->epsilon) / (1 - train->momentum);
    case OPTIMIZER_RMSPROP_KERAS:
    case OPTIMIZER_ADAM:
    case OPTIMIZER_ADAMW: return fmin(1, most / train->epsilon);
    case OPTIMIZER_RMSPROP_PYTORCH: return fmin(1, most / train->epsilon) / (1 - train->momentum);
    case OPTIMIZER_LARS: return train->trust / (1 - train->momentum);
    default: return most;
    }
}

/* Smaller changes have no effect on weights of about 0.01 to 1 in single precision. */
#define CHANGE_LEAST 1e-6

/* Do all steps together leave the weights unchanged? Gradients are assumed to be at most 1, or the bound of
 * clipping. */
static bool do_weights_stay(const struct doubts *doubts, char *words)
{
    const struct train_settings *const train = &doubts->settings->train;
    const double rate = doubts->plan->learning_rate.base * doubts->steps;
    const struct { const char *key; double value, change; } rows[] = {
        { "learning_rate", train->learning_rate, rate * largest_step(train, 1) },
        { "clip_norm", train->clip_norm, train->clip_norm > 0 ? rate * largest_step(train, train->clip_norm) : 1 },
        { "clip_value", train->clip_value, train->clip_value > 0 ? rate * largest_step(train, train->clip_value) : 1 },
    };
    if (train->learning_rate == 0 && is_train_set(doubts, "learning_rate")) {
        snprintf(words, LINE_BYTES, "train.learning_rate = 0: nothing is learnt");
        return true;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows) && doubts->steps > 0; i++) {
        const bool is_trust = i == 0 && train->optimizer == OPTIMIZER_LARS && is_train_set(doubts, "trust");
        const char *const key = is_trust ? "trust" : rows[i].key;
        if (rows[i].change >= CHANGE_LEAST || !is_train_set(doubts, key))
            continue;
        snprintf(words, LINE_BYTES, "train.%s = %g: all %s steps together change a weight by at most %.2g%s, so "
                 "nothing is learnt", key, is_trust ? train->trust : rows[i].value,
                 number_grouped((uint64_t)doubts->steps).text, rows[i].change,
                 train->optimizer == OPTIMIZER_LARS ? " of its size" : "");
        return true;
    }
    return false;
}

static bool does_rise(const struct doubts *doubts, char *words)
{
    const struct learning_rate *const rate = &doubts->plan->learning_rate;
    const bool ends = rate->schedule == RATE_COSINE || rate->schedule == RATE_POLYNOMIAL;
    if (!ends || rate->end <= rate->base || !is_train_set(doubts, "final_rate"))
        return false;
    snprintf(words, LINE_BYTES, "train.final_rate = %g is above the first rate, %g: the learning rate rises to the end "
             "of the run", rate->end, rate->base);
    return true;
}

static bool is_change_in_warmup(const struct doubts *doubts, char *words)
{
    const struct train_settings *const train = &doubts->settings->train;
    const bool is_ours = is_train_set(doubts, "boundaries") || is_train_set(doubts, "warmup_epochs");
    if (train->schedule != RATE_PIECEWISE || train->boundaries.count == 0 || !is_ours ||
        train->boundaries.value[0] >= train->warmup_epochs)
        return false;
    snprintf(words, LINE_BYTES, "train.boundaries: the first one, after epoch %g, is in the warm-up of %g epochs, so "
             "the full learning rate is never used", train->boundaries.value[0], train->warmup_epochs);
    return true;
}

/* Each step subtracts rate * decay times each weight. */
static bool is_decay_too_large(const struct doubts *doubts, char *words)
{
    const struct train_settings *const train = &doubts->settings->train;
    const bool is_plain = train->optimizer == OPTIMIZER_SGD || train->optimizer == OPTIMIZER_MOMENTUM ||
                          train->optimizer == OPTIMIZER_NESTEROV || train->optimizer == OPTIMIZER_ADAMW;
    const double share = doubts->plan->learning_rate.base * train->weight_decay;
    if (!is_plain || share < 1 || !(is_train_set(doubts, "weight_decay") || is_train_set(doubts, "learning_rate")))
        return false;
    snprintf(words, LINE_BYTES, "train.weight_decay = %g: with the learning rate %g every step subtracts %.3g times "
             "each weight", train->weight_decay, doubts->plan->learning_rate.base, share);
    return true;
}

static bool are_betas_swapped(const struct doubts *doubts, char *words)
{
    const struct train_settings *const train = &doubts->settings->train;
    const bool are_used = option_is_used(option_find(SECTION_TRAIN, "betas"), doubts->settings);
    if (!are_used || train->betas.value[0] <= train->betas.value[1] || !is_train_set(doubts, "betas"))
        return false;
    snprintf(words, LINE_BYTES, "train.betas = %g %g: the average of squares is shorter than that of gradients; usual "
             "is 0.9 0.999", train->betas.value[0], train->betas.value[1]);
    return true;
}

/* ---- fractions that other programs define as their complement: the dropped share, not the kept share ---- */

static bool is_norm_of_last_batch(const struct doubts *doubts, char *words)
{
    for (uint32_t i = 0; i < doubts->net->layer_count; i++) {
        const struct layer *const layer = &doubts->net->layers[i];
        if (layer->kind != LAYER_BATCH_NORM || layer->decay >= 0.5)
            continue;
        snprintf(words, LINE_BYTES, "batch_norm %s decay %g: so little of the running average stays at each step that "
                 "the last batches decide it; PyTorch's momentum %g is decay %g", layer->name, layer->decay,
                 layer->decay, 1 - layer->decay);
        return true;
    }
    return false;
}

static bool is_most_dropped(const struct doubts *doubts, char *words)
{
    for (uint32_t i = 0; i < doubts->net->layer_count; i++) {
        const struct layer *const layer = &doubts->net->layers[i];
        if ((layer->kind != LAYER_DROPOUT && layer->kind != LAYER_STOCHASTIC_DEPTH) || layer->rate < 0.75f)
            continue;
        snprintf(words, LINE_BYTES, "%s %s rate %g: this share is set to 0; to keep it the rate is %g",
                 layer_kind_name(layer->kind), layer->name, (double)layer->rate, (double)(1 - layer->rate));
        return true;
    }
    return false;
}

static bool is_average_short(const struct doubts *doubts, char *words)
{
    const double ema = doubts->settings->train.ema;
    if (ema <= 0 || ema >= 0.5 || !is_train_set(doubts, "ema"))
        return false;
    snprintf(words, LINE_BYTES, "train.ema = %g: this share of the average stays at each step; a momentum or alpha of "
             "%g elsewhere is ema = %g", ema, ema, 1 - ema);
    return true;
}

static bool is_rho_small(const struct doubts *doubts, char *words)
{
    const struct train_settings *const train = &doubts->settings->train;
    const bool is_used = option_is_used(option_find(SECTION_TRAIN, "rho"), doubts->settings);
    if (!is_used || train->rho >= 0.5 || !is_train_set(doubts, "rho"))
        return false;
    snprintf(words, LINE_BYTES, "train.rho = %g: this share of the running averages stays at each step; usual is 0.9 "
             "or more", train->rho);
    return true;
}

static bool is_label_smoothed_away(const struct doubts *doubts, char *words)
{
    const double smoothing = doubts->settings->train.label_smoothing;
    if (smoothing <= 0.5 || !is_train_set(doubts, "label_smoothing"))
        return false;
    snprintf(words, LINE_BYTES, "train.label_smoothing = %g: this share goes to all classes alike; to leave it to the "
             "label it is %g", smoothing, 1 - smoothing);
    return true;
}

static bool is_goal_of_guessing(const struct doubts *doubts, char *words)
{
    const double goal = doubts->settings->train.stop_at, chance = 1 / (double)doubts->net->classes;
    if (goal <= 0 || goal > chance || doubts->settings->train.best_by == BEST_BY_LOSS ||
        !is_train_set(doubts, "stop_at"))
        return false;
    snprintf(words, LINE_BYTES, "train.stop_at = %g is reached by guessing one of %" PRIu32 " classes (%.3g)", goal,
             doubts->net->classes, chance);
    return true;
}

static bool is_not_mixed(const struct doubts *doubts, char *words)
{
    const struct augment_settings *const augment = &doubts->settings->augment;
    const bool mixes = augment->mixup > 0 || augment->cutmix > 0;
    if (mixes && augment->mixed == 0)
        snprintf(words, LINE_BYTES, "augment.mixed = 0: no image is mixed, in spite of augment.mixup or "
                 "augment.cutmix");
    else if (!mixes && augment->mixed < 1 && is_set(doubts, SECTION_AUGMENT, "mixed"))
        snprintf(words, LINE_BYTES, "augment.mixed = %g has no effect without augment.mixup or augment.cutmix",
                 augment->mixed);
    else
        return false;
    return true;
}

static bool is_padding_too_wide(const struct doubts *doubts, char *words)
{
    const struct augment_settings *const augment = &doubts->settings->augment;
    const struct shape image = doubts->net->input;
    const uint32_t side = image.height < image.width ? image.height : image.width;
    if (augment->crop != CROP_PAD || augment->pad < side || !is_set(doubts, SECTION_AUGMENT, "pad"))
        return false;
    snprintf(words, LINE_BYTES, "augment.pad = %" PRId64 " is no less than the %u pixels of an image: some crops show "
                                "nothing of it", augment->pad, side);
    return true;
}

static bool are_the_same_dropped(const struct doubts *doubts, char *words)
{
    const struct schedule *const schedule = &doubts->plan->schedule;
    const uint64_t rest = schedule->records[PHASE_TRAIN] % schedule->batch;
    if (!schedule->drop_last || doubts->settings->data.shuffle != SHUFFLE_NONE || rest == 0)
        return false;
    snprintf(words, LINE_BYTES, "data.last_batch = drop with data.shuffle = none: the last %s records are never "
             "trained on", number_grouped(rest).text);
    return true;
}

/* Is there no sum for the named reduction to compute: one tower, a mode without sums, or a server that adds? */
static bool is_reduction_unused(const struct doubts *doubts, char *words)
{
    const struct sync_settings *const sync = &doubts->settings->sync;
    const struct run_devices *const devices = &doubts->plan->devices;
    const bool is_served = devices->mode->serves != SERVES_NOBODY;
    char why[100];
    struct option_text reduce, mode;
    if (sync->reduce == REDUCE_CHOICE_AUTO || !devices->backend->computes || !is_set(doubts, SECTION_SYNC, "reduce"))
        return false;
    if (doubts->plan->schedule.towers == 1)
        snprintf(why, sizeof(why), "with one tower: there is nothing to sum");
    else if (is_served && sync->mode == SYNC_SERVER_DEVICE)
        snprintf(why, sizeof(why), "with sync.server = cpu: the server adds the gradients");
    else if (is_served || devices->mode->sum == NULL)
        snprintf(why, sizeof(why), "with sync.mode = %.20s: %s",
                 option_format(option_find(SECTION_SYNC, "mode"), doubts->settings, &mode),
                 is_served ? "the server adds each tower's gradients" : "the towers sum nothing");
    else
        return false;
    snprintf(words, LINE_BYTES, "sync.reduce = %.20s has no effect %s",
             option_format(option_find(SECTION_SYNC, "reduce"), doubts->settings, &reduce), why);
    return true;
}

/* Do towers send more with parts of layers than with all gradients? */
static bool are_parts_more(const struct doubts *doubts, char *words)
{
    struct parts_gain gain;
    char sent[PARTS_TEXT_SIZE];
    if (!run_plan_parts_gain(doubts->plan, doubts->settings, doubts->net, &gain) || gain.bytes <= gain.replicated_bytes)
        return false;
    parts_gain_describe(&gain, sent);
    snprintf(words, LINE_BYTES, "model.parts: %s, because a batch of %u is more than %u: leave it out unless it is for "
             "the memory of towers", sent, doubts->plan->schedule.batch, gain.batch);
    return true;
}

/* ---- batch normalisation of one value ---- */

/* The first batch normalisation of layers with a single pixel; NULL: there is none. */
static const struct layer *find_single_norm(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_BATCH_NORM && net->layers[i].in.height * net->layers[i].in.width == 1)
            return &net->layers[i];
    return NULL;
}

struct alone { bool sometimes, always; };

/* Does this tower compute single samples, in some steps or always? */
static struct alone find_alone(const struct run_plan *plan, const struct settings *settings, uint32_t tower)
{
    const struct tower_spec spec = run_plan_tower(plan, settings, tower);
    struct alone alone = { .always = true };
    for (uint32_t i = 0; i < TOWER_COUNTS; i++) {
        alone.sometimes = alone.sometimes || spec.train_counts[i] == 1;
        alone.always = alone.always && spec.train_counts[i] <= 1;
    }
    return alone;
}

/* The variance of one value is 0, so the normalised value does not depend on the image, and the gradient is 0. The
 * first tower has the largest local batches, the last one the smallest. */
int plan_doubts_check(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                      struct problems *problems)
{
    const struct layer *const layer = find_single_norm(run_plan_train_net(plan, net));
    if (layer == NULL || !find_alone(plan, settings, 0).always)
        return 0;
    problems_add(problems, "[train] batch", "batch normalisation of one value, whose variance is 0: %s has one pixel, "
                 "and samples are computed one by one, so its output is the same for all images: use a batch of at "
                 "least %u", layer->name,
                 2 * (plan->schedule.slices > 0 ? plan->schedule.slices : plan->schedule.towers));
    return -EINVAL;
}

static bool is_one_normalised(const struct doubts *doubts, char *words)
{
    const struct layer *const layer = find_single_norm(doubts->net);
    const uint32_t last = doubts->plan->schedule.towers - 1;
    if (layer == NULL || !(find_alone(doubts->plan, doubts->settings, 0).sometimes ||
                           find_alone(doubts->plan, doubts->settings, last).sometimes))
        return false;
    snprintf(words, LINE_BYTES, "train.batch: a sample is computed alone in some steps, where batch normalisation of "
             "%s, which has one pixel, gives the same for all images: use another batch%s", layer->name,
             doubts->plan->schedule.drop_last ? "" : ", or data.last_batch = drop");
    return true;
}

void plan_doubts_print(const struct run_plan *plan, const struct settings *settings, const struct net *net)
{
    static bool (*const rows[])(const struct doubts *doubts, char *words) = {
        is_cut, do_weights_stay, has_no_rate, is_rate_lost, is_rate_constant, does_rise, is_change_in_warmup,
        is_decay_too_large, are_betas_swapped, is_goal_of_guessing, is_not_mixed, is_padding_too_wide,
        are_the_same_dropped, is_one_normalised, is_norm_of_last_batch, is_most_dropped, is_average_short,
        is_rho_small, is_label_smoothed_away, is_reduction_unused,
        are_parts_more,
    };
    const struct doubts doubts = { plan, settings, run_plan_train_net(plan, net),
                                   (double)schedule_steps_per_epoch(&plan->schedule),
                                   (double)schedule_step_count(&plan->schedule) };
    char words[LINE_BYTES];
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (rows[i](&doubts, words))
            log_message(LOG_RUN, "%s", words);
    print_longer(&doubts);
}
