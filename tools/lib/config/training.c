/* Optimizer, learning rate and synchronisation mode of the settings. Called by the main thread. */
#include "tools/lib/config/training.h"

#include <string.h>

#include "compute/share.h"
#include "stage/schedule.h"
#include "stage/text/decimal.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/settings_model.h"

struct optimizer training_optimizer(const struct train_settings *train)
{
    return (struct optimizer){
        .kind = train->optimizer,
        .momentum = (float)train->momentum,
        .rho = train->rho,
        .beta1 = train->betas.value[0],
        .beta2 = train->betas.value[1],
        .trust = train->trust,
        .epsilon = (float)train->epsilon,
        .clip_value = train->clip_value,
        .clip_norm = train->clip_norm,
        .decay_scope = train->decay_scope,
        .weight_decay = (float)train->weight_decay,
    };
}

static void add(char *text, size_t text_size, const char *more)
{
    const size_t used = strlen(text);
    snprintf(text + used, text_size - used, "%s", more);
}

static void add_decimal(char *text, size_t text_size, const char *before, double number)
{
    char decimal[DECIMAL_SIZE];
    decimal_write(number, decimal, sizeof(decimal));
    add(text, text_size, before);
    add(text, text_size, decimal);
}

/* Append a number with its significant digits. */
static void add_number(char *text, size_t text_size, const char *before, double number)
{
    char decimal[DECIMAL_SIZE];
    decimal_write_float((float)number, decimal, sizeof(decimal));
    add(text, text_size, before);
    add(text, text_size, decimal);
}

void training_describe_optimizer(const struct train_settings *train, char *text, size_t text_size)
{
    static const char *const scopes[] = { [DECAY_NO_NORMS] = "", [DECAY_ALL] = " of all parameters",
                                          [DECAY_WEIGHTS] = " of weights alone" };
    const struct { const char *key, *before; double number; } numbers[] = {
        { "momentum", ", momentum ", train->momentum },
        { "rho", ", rho ", train->rho },
        { "betas", ", betas ", train->betas.value[0] },
        { "betas", " ", train->betas.value[1] },
        { "epsilon", ", epsilon ", train->epsilon },
        { "trust", ", trust ", train->trust },
    };
    const char *const name = option_choice_name(option_find(SECTION_TRAIN, "optimizer"), (int)train->optimizer);
    *text = '\0';
    add(text, text_size, name);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (option_is_for(option_find(SECTION_TRAIN, numbers[i].key), name))
            add_number(text, text_size, numbers[i].before, numbers[i].number);
    if (train->weight_decay > 0) {
        add_number(text, text_size, ", weight decay ", train->weight_decay);
        add(text, text_size, scopes[train->decay_scope]);
    }
    if (train->label_smoothing > 0)
        add_number(text, text_size, ", labels smoothed by ", train->label_smoothing);
    if (train->clip_value > 0)
        add_number(text, text_size, ", gradients at most ", train->clip_value);
    if (train->clip_norm > 0)
        add_number(text, text_size, ", norm of gradients at most ", train->clip_norm);
    if (train->ema > 0)
        add_decimal(text, text_size, "; evaluated and saved: averages of weights, decay ", train->ema);
}

_Static_assert(OPTION_NUMBERS_MAX <= RATE_BOUNDARIES_MAX, "a rate has room for all boundaries of the settings");

struct learning_rate training_rate(const struct train_settings *train, const struct schedule *schedule)
{
    const double per_epoch = (double)schedule_steps_per_epoch(schedule);
    const double scale = train->rate_batch > 0 ? (double)schedule->batch / (double)train->rate_batch : 1;
    struct learning_rate rate = {
        .schedule = train->schedule,
        .base = train->learning_rate * scale,
        .warmup = train->warmup_epochs * per_epoch,
        .warmup_from = train->warmup_from,
        .end = train->final_rate,
        .last = train->schedule_epochs > 0 ? train->schedule_epochs * per_epoch
                                           : (double)schedule_step_count(schedule),
        .factor = train->schedule == RATE_INVERSE_TIME ? train->rate_decay : train->decay_factor,
        .period = train->decay_epochs * per_epoch,
        .staircase = train->staircase,
        .power = train->power,
        .peak = train->peak,
        .boundary_count = train->boundaries.count,
    };
    for (uint32_t i = 0; i < rate.boundary_count; i++) {
        rate.boundaries[i] = train->boundaries.value[i] * per_epoch;
        rate.factors[i] = train->factors.value[i];
    }
    return rate;
}

/* ---- the rate in words ---- */

struct words { const struct train_settings *train; const struct learning_rate *rate; char *text; size_t text_size; };

static void say_nothing(const struct words *words)
{
    (void)words;
}

static void say_boundaries(const struct words *words)
{
    for (uint32_t i = 0; i < words->rate->boundary_count; i++) {
        add_number(words->text, words->text_size, ", ", words->rate->base * words->rate->factors[i]);
        add_number(words->text, words->text_size, " after epoch ", words->train->boundaries.value[i]);
    }
}

static void say_factor(const struct words *words)
{
    add_number(words->text, words->text_size, ", times ", words->train->decay_factor);
    add_number(words->text, words->text_size, " every ", words->train->decay_epochs);
    add(words->text, words->text_size, words->train->staircase ? " epochs" : " epochs, a little at every step");
}

static void say_inverse_time(const struct words *words)
{
    add_number(words->text, words->text_size, " / (1 + ", words->train->rate_decay);
    add(words->text, words->text_size, " * step)");
}

static void say_end(const struct words *words)
{
    const double epochs = words->train->schedule_epochs;
    add(words->text, words->text_size, words->train->schedule == RATE_COSINE ? ", by a cosine" : ", by a polynomial");
    if (words->train->schedule == RATE_POLYNOMIAL)
        add_number(words->text, words->text_size, " of power ", words->train->power);
    add_number(words->text, words->text_size, " to ", words->rate->end);
    if (epochs > 0)
        add_number(words->text, words->text_size, " in epoch ", epochs);
}

/* Describe a cycle; if its peak is at one end, the rate only falls or only rises. */
static void say_cycle(const struct words *words)
{
    const double start = words->rate->base / RATE_CYCLE_START, top = words->rate->peak * words->rate->last - 1;
    const bool rises = top > 0, falls = top < words->rate->last - 1;
    add(words->text, words->text_size, " in one cycle,");
    if (rises)
        add_number(words->text, words->text_size, " from ", start);
    if (falls)
        add_number(words->text, words->text_size, " to ", start / RATE_CYCLE_END);
    if (rises && falls) {
        add_number(words->text, words->text_size, ", largest after ", words->train->peak);
        add(words->text, words->text_size, " of the steps");
    } else {
        add(words->text, words->text_size, falls ? ", largest at the first step" : ", largest at the last step");
    }
}

void training_describe_rate(const struct train_settings *train, const struct learning_rate *rate, char *text,
                            size_t text_size)
{
    static void (*const say[RATE_SCHEDULE_COUNT])(const struct words *words) = {
        [RATE_CONSTANT] = say_nothing, [RATE_PIECEWISE] = say_boundaries, [RATE_EXPONENTIAL] = say_factor,
        [RATE_INVERSE_TIME] = say_inverse_time, [RATE_COSINE] = say_end, [RATE_POLYNOMIAL] = say_end,
        [RATE_ONE_CYCLE] = say_cycle,
    };
    const struct words words = { train, rate, text, text_size };
    *text = '\0';
    add_number(text, text_size, "", rate->base);
    if (train->rate_batch > 0) {
        add_number(text, text_size, " (", train->learning_rate);
        add_number(text, text_size, " for a batch of ", (double)train->rate_batch);
        add(text, text_size, ")");
    }
    say[train->schedule](&words);
    if (train->warmup_epochs > 0) {
        add_number(text, text_size, ", warm-up from ", rate->base * train->warmup_from);
        add_number(text, text_size, " over ", train->warmup_epochs);
        add(text, text_size, train->warmup_epochs == 1 ? " epoch" : " epochs");
    }
}

/* ---- synchronisation ---- */

static enum sync_mode mode_of(const struct sync_settings *sync)
{
    const bool is_relaxed = sync->consistency == CONSISTENCY_RELAXED;
    if (sync->mode == SYNC_REPLICATED && is_relaxed)
        return SYNC_RELAXED;
    if (sync->mode != SYNC_SERVER_DEVICE)
        return sync->mode;
    if (sync->server == SYNC_PLACE_CPU)
        return is_relaxed ? SYNC_SERVER_HOST_RELAXED : SYNC_SERVER_HOST;
    return is_relaxed ? SYNC_SERVER_DEVICE_RELAXED : SYNC_SERVER_DEVICE;
}

const struct sync_ops *settings_sync(const struct settings *settings, bool computes)
{
    const struct sync_settings *const sync = &settings->sync;
    return sync_choose(computes ? mode_of(sync) : SYNC_REPLICATED, settings_towers(settings), settings->ranks,
                       (uint32_t)sync->max_staleness);
}

/* Check relaxed consistency, with which the check of gradients comes one step late. */
static void check_consistency(struct settings *settings, struct problems *problems)
{
    if (settings->sync.consistency == CONSISTENCY_STRONG)
        return;
    if (settings->sync.mode == SYNC_ASYNC)
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed cannot be used with mode = async: use a larger max_staleness");
    else if (!settings_sync(settings, true)->sums[REGION_GRADIENTS])
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed overlaps the all-reduce of gradients, which this mode does not have: use mode = "
                        "replicated or parameter_server");
    if (settings->devices.precision == PRECISION_FP16)
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed does not support the loss scaling of fp16: use devices.precision = bf16");
    if (settings->train.on_nan == ON_NAN_SKIP)
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "relaxed checks the gradients one step late, hence does not support train.on_nan = skip: use "
                        "rollback");
}

/* Check sync.wire: weights in bf16 would lose small updates. */
static void check_wire(struct settings *settings, struct problems *problems)
{
    const struct sync_ops *const mode = settings_sync(settings, true);
    if (settings->sync.wire == WIRE_FP32 || mode->sums[REGION_GRADIENTS])
        return;
    settings_report(settings, problems, SECTION_SYNC, "wire",
                    "bf16 is for gradients, which this mode does not send: use fp32, or mode = replicated, "
                    "parameter_server or async");
}

/* Write the numbers of towers that can share so many slices, or parts (head_parts_fit): "1, 3, 6 or 12". */
static void fitting_towers(uint32_t count, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (uint32_t towers = 1; towers <= count && used < size; towers++) {
        if (!schedule_slices_fit(count, towers))
            continue;
        const char *const before = used == 0 ? "" : towers == count ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%u", before, towers);
    }
}

static void describe_towers(const struct settings *settings, char *text, size_t size)
{
    const unsigned ranks = settings->ranks, towers = (unsigned)settings->devices.towers;
    if (ranks == 1)
        snprintf(text, size, "devices.towers is %u", towers);
    else
        snprintf(text, size, "%u ranks have %u", ranks, settings_towers(settings));
}

static void check_slices(struct settings *settings, struct problems *problems)
{
    const struct train_settings *const train = &settings->train;
    const uint32_t slices = (uint32_t)train->slices;
    const int64_t batch = settings_global_batch(settings);
    char message[256], fitting[64], towers[64];
    if (slices == 0)
        return;
    fitting_towers(slices, fitting, sizeof(fitting));
    describe_towers(settings, towers, sizeof(towers));
    snprintf(message, sizeof(message), "%u slice%s can be shared by %s tower%s, because their sums are added in pairs; "
             "%s", slices, slices == 1 ? "" : "s", fitting, slices == 1 ? "" : "s", towers);
    if (!schedule_slices_fit(slices, settings_towers(settings)))
        settings_report(settings, problems, SECTION_TRAIN, "slices", message);
    snprintf(message, sizeof(message), "%u slices are more than the %lld samples of a batch: use at most that", slices,
             (long long)batch);
    if (slices > batch)
        settings_report(settings, problems, SECTION_TRAIN, "slices", message);
    snprintf(message, sizeof(message), "not needed with train.slices, whose slices are computed one by one: set "
             "train.batch = %lld instead", (long long)batch);
    if (train->accumulate > 1)
        settings_report(settings, problems, SECTION_TRAIN, "accumulate", message);
    if (!sync_table[mode_of(&settings->sync)]->has_slices && settings->model.parts == 0)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "in this mode the weights depend on the number of towers, which train.slices excludes: use "
                        "replicated or parameter_server");
}

/* Check that the towers of the run can share model.parts, in slices that do not depend on them. */
static void check_part_towers(struct settings *settings, struct problems *problems)
{
    const uint32_t parts = (uint32_t)settings->model.parts, count = settings_towers(settings);
    char message[256], fitting[64], towers[64];
    fitting_towers(parts, fitting, sizeof(fitting));
    describe_towers(settings, towers, sizeof(towers));
    snprintf(message, sizeof(message), "%u part%s can be shared by %s tower%s, because sums over parts are added in pairs; "
             "%s", parts, parts == 1 ? "" : "s", fitting, parts == 1 ? "" : "s", towers);
    if (!head_parts_fit(parts, count))
        settings_report(settings, problems, SECTION_MODEL, "parts", message);
    snprintf(message, sizeof(message), "needs slices, so that the weights do not depend on the number of towers: set "
             "train.slices = %u, or another number that %u tower%s can share", parts, count, count == 1 ? "" : "s");
    if (settings->train.slices == 0)
        settings_report(settings, problems, SECTION_MODEL, "parts", message);
}

/* Check model.parts, which has an effect only where towers train. The network was checked when it was opened. */
static void check_parts(struct settings *settings, struct problems *problems)
{
    if (settings->model.parts == 0 || settings->only_classifies)
        return;
    check_part_towers(settings, problems);
    if (settings->sync.mode != SYNC_REPLICATED)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "with model.parts a tower updates its own parts: use replicated");
    if (settings->sync.consistency == CONSISTENCY_RELAXED)
        settings_report(settings, problems, SECTION_SYNC, "consistency",
                        "with model.parts towers need each other's activations within a step: use strong");
    if (settings->sync.wire == WIRE_BF16)
        settings_report(settings, problems, SECTION_SYNC, "wire",
                        "bf16 is for gradients alone, and with model.parts towers also send activations: use fp32");
    if (settings->devices.precision == PRECISION_FP16)
        settings_report(settings, problems, SECTION_DEVICES, "precision",
                        "model.parts does not support the loss scaling of fp16: use bf16");
}

bool settings_use_bf16_grads(const struct settings *settings)
{
    return settings->sync.wire == WIRE_BF16 && (settings_towers(settings) > 1 || settings->train.slices > 0);
}

static void check_tower_count(struct settings *settings, struct problems *problems)
{
    const uint32_t ranks = settings->ranks;
    const uint64_t towers = (uint64_t)ranks * (uint64_t)settings->devices.towers;
    char message[160];
    if (towers <= RUN_TOWERS_MAX)
        return;
    if (ranks <= RUN_TOWERS_MAX)
        snprintf(message, sizeof(message), "%u ranks with %lld towers each are %llu, and a run has at most %u: use at "
                 "most %u with so many ranks", ranks, (long long)settings->devices.towers, (unsigned long long)towers,
                 RUN_TOWERS_MAX, RUN_TOWERS_MAX / ranks);
    else
        snprintf(message, sizeof(message), "%u ranks have a tower each, and a run has at most %u towers: start at most "
                 "%u ranks", ranks, RUN_TOWERS_MAX, RUN_TOWERS_MAX);
    settings_report(settings, problems, SECTION_DEVICES, "towers", message);
}

/* The server of async has memory for every tower of the run in one process, and a thread for every other rank. */
static void check_served_towers(struct settings *settings, struct problems *problems)
{
    char message[160];
    if (settings_towers(settings) <= SERVED_TOWERS_MAX)
        return;
    snprintf(message, sizeof(message), "with async one process serves all towers, at most %u, and there are %u: use "
             "replicated, or averaging", SERVED_TOWERS_MAX, settings_towers(settings));
    settings_report(settings, problems, SECTION_SYNC, "mode", message);
}

static bool is_power_of_two(int64_t number)
{
    return number > 0 && (number & (number - 1)) == 0;
}

/* Check sync.group: sums are added in pairs, so groups and the towers of a rank have to be whole subtrees. GPUs sum without
 * groups. */
static void check_group(struct settings *settings, struct problems *problems)
{
    const int64_t group = settings->sync.group;
    char message[256];
    if (group <= 1)
        return;
    snprintf(message, sizeof(message), "sums are added in pairs, so a group is a power of two of ranks that divides their "
             "number, and each rank has a power of two of towers; here %lld of %u ranks with %lld: use another number, or "
             "1 for no groups", (long long)group, settings->ranks, (long long)settings->devices.towers);
    if (!is_power_of_two(group) || settings->ranks % group != 0 || !is_power_of_two(settings->devices.towers))
        settings_report(settings, problems, SECTION_SYNC, "group", message);
    if (settings->sync.reduce == REDUCE_CHOICE_NCCL || settings->sync.reduce == REDUCE_CHOICE_IPC)
        settings_report(settings, problems, SECTION_SYNC, "group",
                        "groups are for sums on the CPU, and sync.reduce has GPUs compute them: use sync.reduce = host, or "
                        "1 for no groups");
}

/* Refuse settings that work only between the towers of one process. */
static void check_ranks(struct settings *settings, struct problems *problems)
{
    const enum reduce_choice reduce = settings->sync.reduce;
    check_tower_count(settings, problems);
    check_group(settings, problems);
    if (reduce == REDUCE_CHOICE_PEER)
        settings_report(settings, problems, SECTION_SYNC, "reduce",
                        "peer sums within one process: use auto, ipc, nccl or host with several ranks");
}

/* With a parameter server, towers do not see the sum of the gradients. */
void settings_check_sync(struct settings *settings, struct problems *problems)
{
    const struct sync_ops *const mode = settings_sync(settings, true);
    if (settings->ranks > 1)
        check_ranks(settings, problems);
    else if (settings->sync.reduce == REDUCE_CHOICE_IPC)
        settings_report(settings, problems, SECTION_SYNC, "reduce",
                        "ipc sums over several processes, and there is one: use auto or peer");
    check_consistency(settings, problems);
    check_wire(settings, problems);
    check_slices(settings, problems);
    check_parts(settings, problems);
    if (mode->serves == SERVES_EACH)
        check_served_towers(settings, problems);
    const bool is_served = mode->has_owners || mode->serves != SERVES_NOBODY;
    if (is_served && settings->devices.precision == PRECISION_FP16)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "fp16 needs the sum of the gradients on every tower: use replicated, or devices.precision = "
                        "bf16");
    if (is_served && settings->train.on_nan == ON_NAN_SKIP)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "train.on_nan = skip needs the sum of the gradients on every tower: use replicated, or "
                        "on_nan = rollback");
    if (mode->serves == SERVES_EACH && settings->train.ema > 0)
        settings_report(settings, problems, SECTION_SYNC, "mode",
                        "train.ema needs the same weights on all towers: use another mode than async");
}
