/* The verdict: which stage limits, what to change, and what that would gain. */
#include "tools/lib/run/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stage/text/program_folder.h"
#include "tools/lib/text/number.h"

/* A stage limits if its threads work for at least this share of their time, unless other facts decide. */
#define BUSY 0.5
/* A stage whose threads work for this share of their time is saturated; one that works less waits for room in
 * queues. */
#define ALWAYS_BUSY 0.75
/* The process uses this share of all cores, so that more threads would not help. */
#define CORES_BUSY 0.9
/* Other programs slow a run only if they use more than this share of the cores, and no core is idle. */
#define OTHERS_BUSY 0.1
/* A quota slows a run if it is used up in this share of the periods. */
#define THROTTLED 0.1

static const char *const names[LIMIT_COUNT] = {
    [LIMIT_UNKNOWN] = "unknown",     [LIMIT_READING] = "reading",     [LIMIT_DECODING] = "decoding",
    [LIMIT_BURSTS] = "bursts",       [LIMIT_COPY] = "copying",        [LIMIT_SLOTS] = "slots",
    [LIMIT_REDUCTION] = "reduction", [LIMIT_UPDATE] = "update",       [LIMIT_REPORTS] = "reports",
    [LIMIT_STATES] = "states",       [LIMIT_COMPUTE] = "compute",     [LIMIT_OTHERS] = "others",
    [LIMIT_HANDING] = "handing",     [LIMIT_EXCHANGE] = "exchange",
};

static double input_share(const struct fractions *share)
{
    return share->input_wait + share->exposed_copy;
}

/* The share of the cores' time that other programs took; 0 if unknown. */
static double taken_by_others(const struct verdict_facts *facts)
{
    const double taken = facts->cores.others + facts->cores.stolen;
    return taken > 0 ? taken : 0;
}

static bool is_crowded(const struct verdict_facts *facts)
{
    return taken_by_others(facts) > OTHERS_BUSY && facts->cores.own + taken_by_others(facts) > CORES_BUSY;
}

static double busiest(const struct verdict_facts *facts)
{
    return fmax(facts->busy.readers, facts->busy.decoders);
}

static bool is_copying(const struct verdict_facts *facts)
{
    return facts->copying > BUSY && facts->ring_empty < BUSY;
}

static enum limit find_input_limit(const struct verdict_facts *facts, const struct settings *settings)
{
    if (settings->input.source == INPUT_SYNTHETIC)
        return LIMIT_SLOTS;
    if (is_copying(facts) || facts->share.exposed_copy > facts->share.input_wait)
        return LIMIT_COPY;
    if (busiest(facts) < ALWAYS_BUSY)
        return LIMIT_BURSTS;
    return facts->busy.decoders >= facts->busy.readers ? LIMIT_DECODING : LIMIT_READING;
}

static enum limit find_other_limit(const struct verdict_facts *facts, const struct settings *settings)
{
    if (facts->main_busy > BUSY)
        return LIMIT_REPORTS;
    const struct checkpoint_settings *const states = &settings->checkpoint;
    return states->steps > 0 || states->seconds > 0 || states->each_epoch ? LIMIT_STATES : LIMIT_COMPUTE;
}

/* With devices.kind = null: towers wait for main, for a copy, or for the busiest stage of the loader. */
static enum limit find_feed_limit(const struct verdict_facts *facts)
{
    const struct fractions *const share = &facts->share;
    if (facts->main_busy > BUSY && share->other > input_share(share))
        return LIMIT_REPORTS;
    if (share->exposed_copy > share->input_wait || is_copying(facts))
        return LIMIT_COPY;
    if (busiest(facts) < BUSY)
        return LIMIT_HANDING;
    return facts->busy.decoders >= facts->busy.readers ? LIMIT_DECODING : LIMIT_READING;
}

/* The towers compute all the time: do they have the cores they need? */
static enum limit find_compute_limit(const struct verdict_facts *facts, const struct run_plan *plan)
{
    const double wanted = plan->devices.towers.count * plan->threads_per_tower;
    const bool lacks_cores = run_plan_uses_cores(plan) && is_crowded(facts) && facts->cores.own * plan->cores < wanted;
    return lacks_cores ? LIMIT_OTHERS : LIMIT_COMPUTE;
}

/* The limit with the largest of the shares that exceed their bounds. */
static enum limit find_limit(const struct verdict_facts *facts, const struct run_plan *plan,
                             const struct settings *settings, double *share_out)
{
    const struct { double share, bound; enum limit limit; } limits[] = {
        { input_share(&facts->share), VERDICT_INPUT_WAIT, find_input_limit(facts, settings) },
        { facts->share.exposed_reduction, VERDICT_REDUCTION, LIMIT_REDUCTION },
        { facts->share.exposed_exchange, VERDICT_REDUCTION, LIMIT_EXCHANGE },
        { facts->share.other, VERDICT_OTHER, find_other_limit(facts, settings) },
        { facts->share.update, VERDICT_UPDATE, LIMIT_UPDATE },
    };
    enum limit found = LIMIT_COMPUTE;
    double largest = 0;
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (limits[i].limit != LIMIT_COMPUTE && limits[i].share > limits[i].bound && limits[i].share > largest) {
            largest = limits[i].share;
            found = limits[i].limit;
        }
    if (found != LIMIT_COMPUTE) {
        *share_out = largest;
        return found;
    }
    found = find_compute_limit(facts, plan);
    *share_out = found == LIMIT_OTHERS ? taken_by_others(facts)
                                       : facts->share.forward + facts->share.backward + facts->share.update;
    return found;
}

static void write_text(struct verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write_text(struct verdict *verdict, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, arguments);
    va_end(arguments);
}

/* The cores that others used: "0.9 of the 2 cores"; and the time that the host of a virtual machine took, if any. */
struct others_text { char text[96]; };
static struct others_text others_words(const struct verdict_facts *facts, const struct run_plan *plan)
{
    const double others = plan->cores * facts->cores.others, stolen = plan->cores * facts->cores.stolen;
    struct others_text words;
    char cores[24] = "core";
    if (plan->cores > 1)
        snprintf(cores, sizeof(cores), "%u cores", plan->cores);
    if (stolen < 0.05)
        snprintf(words.text, sizeof(words.text), "%.1f of the %s", others, cores);
    else
        snprintf(words.text, sizeof(words.text), "%.1f of the %s, the virtual machine's host %.1f more", others, cores,
                 stolen);
    return words;
}

/* Append the use of cores by others to a verdict that names another limit. */
static void add_others(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan)
{
    const size_t at = strlen(verdict->text);
    if (is_crowded(facts) && verdict->limit != LIMIT_OTHERS)
        snprintf(verdict->text + at, sizeof(verdict->text) - at, "; other programs used %s: repeat the run when they "
                 "have ended", others_words(facts, plan).text);
}

/* Append the use of the CPU quota. A quota that is used up occasionally costs little: most threads that it stops would
 * wait anyway. */
static void add_quota(struct verdict *verdict, const struct verdict_facts *facts)
{
    const size_t at = strlen(verdict->text);
    if (facts->cores.throttled > THROTTLED)
        snprintf(verdict->text + at, sizeof(verdict->text) - at, "; the CPU quota of the control group was used up in "
                 "%.0f %% of its periods: raise it (cpu.max, docker --cpus)", 100 * facts->cores.throttled);
}

/* The time that a rank is late as text: "14", "5.0". */
struct late_text { char text[32]; };
static struct late_text late_words(double ms)
{
    struct late_text words;
    snprintf(words.text, sizeof(words.text), "%.*f", (ms < 10) + (ms < 1), ms);
    return words;
}

/* Append the rank for which the others wait, or its host if all ranks there are late, if it slows the run. */
static void add_slow_rank(struct verdict *verdict, const struct verdict_facts *facts)
{
    const struct last_rank *const last = &facts->last;
    char who[320], rests[96] = "";
    if (facts->last_name == NULL || !last_rank_is_slow(last, facts->step_ms))
        return;
    if (last->together > 1)
        snprintf(who, sizeof(who), "all %u ranks of %s are late together: %s", last->together, facts->last_host,
                 facts->last_name);
    else
        snprintf(who, sizeof(who), "%s", facts->last_name);
    if (last_rank_rests(last))
        snprintf(rests, sizeof(rests), " in the mean, as it stands still now and then (for up to %s ms)",
                 late_words(last->most_ms).text);
    const size_t at = strlen(verdict->text);
    const bool waits_for_input = last->input_ms > last->behind_ms / 2;
    snprintf(verdict->text + at, sizeof(verdict->text) - at, "; %s was last in %.0f %% of the sums, %s ms behind the "
             "median of the others%s: %s", who, 100 * last->share, late_words(last->behind_ms).text, rests,
             waits_for_input ? "it waited for input: compare how fast its host reads and decodes"
                             : "look for other programs, heat and slower cores on its host (pipetrain --doctor there)");
}

/* The gain in speed if towers no longer lose this share of their time. */
static double gain_without(double share)
{
    return share < 1 ? 1 / (1 - share) - 1 : NAN;
}

/* The gain as text: ", up to 30 % more images/s"; "" if the gain is unknown or small. */
struct gain_text { char text[40]; };
static struct gain_text gain_words(double gain)
{
    struct gain_text words = { "" };
    if (gain >= 0.005 && gain < 100)
        snprintf(words.text, sizeof(words.text), ", up to %.0f %% more images/s", 100 * gain);
    return words;
}

/* The number of threads that would keep the towers busy, limited by the idle cores. */
static uint32_t threads_wanted(const struct verdict *verdict, uint32_t threads, double busy, double idle_cores)
{
    const double wanted = ceil(threads * busy / fmax(1 - verdict->share, 0.01));
    const double room = threads + fmax(1, floor(idle_cores));
    return (uint32_t)fmax(threads + 1, fmin(wanted, room));
}

static void advise_threads(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan,
                           bool waits_for_files)
{
    const bool decodes = verdict->limit == LIMIT_DECODING;
    const uint32_t threads = decodes ? plan->decode_threads : plan->read_threads;
    const double busy = decodes ? facts->busy.decoders : facts->busy.readers;
    const double idle = waits_for_files ? threads : plan->cores * (1 - facts->cores.own - taken_by_others(facts));
    const uint32_t wanted = threads_wanted(verdict, threads, busy, idle);
    verdict->key = decodes ? "input.decode_threads" : "input.read_threads";
    verdict->gain = fmin(gain_without(verdict->share), wanted / (threads * busy) - 1);
    write_text(verdict, "%s limits (towers waited %.1f %% of their time; %u %s%s %.0f %% busy%s): raise %s to %u%s%s",
        decodes ? "decoding" : "reading", 100 * verdict->share, threads, decodes ? "decoder" : "reader",
        threads == 1 ? "" : "s", 100 * busy, waits_for_files ? ", most of it waiting for files" : "", verdict->key,
        wanted, gain_words(verdict->gain).text,
        decodes || plan->memory.kept_bytes > 0 ? "" : ", or set input.source = cached to read every shard once");
}

/* Advise less work if all cores are busy: smaller images, whose gain is proportional to their number of pixels. */
static void advise_less_work(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan)
{
    const uint32_t side = facts->is_encoded ? sides_smaller(facts->stored_side, facts->taken_side) : 0;
    char fix[160 + PROGRAM_FOLDER_MAX] = "";
    if (side > 0) {
        const double ratio = (double)facts->stored_side / side;
        verdict->gain = fmin(gain_without(verdict->share), ratio * ratio - 1);
        snprintf(fix, sizeof(fix), ": store smaller images: %spipetrain-convert tfrecord SHARDS -o resized-%u "
                 "--resize-short=%u", program_folder(), side, side);
    } else if (facts->is_encoded) {
        snprintf(fix, sizeof(fix), ": store smaller or raw images: %spipetrain-convert tfrecord SHARDS -o DIR "
                 "--resize-short=N or --raw", program_folder());
    }
    char cores[32] = "the core is";
    if (plan->cores > 1)
        snprintf(cores, sizeof(cores), "all %u cores are", plan->cores);
    write_text(verdict, "%s limits (towers waited %.1f %% of their time) and %s busy, so more threads would not "
               "help%s%s", names[verdict->limit], 100 * verdict->share, cores, fix, gain_words(verdict->gain).text);
}

static void advise_on_loader(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan)
{
    const bool waits_for_files = verdict->limit == LIMIT_READING && facts->reading_cpu < BUSY;
    if (facts->cores.own > CORES_BUSY && !waits_for_files)
        advise_less_work(verdict, facts, plan);
    else
        advise_threads(verdict, facts, plan, waits_for_files);
}

/* Advise to change a setting that can reduce the share of the towers' time. */
static void advise_key(struct verdict *verdict, const char *key, const char *what, const char *fix)
{
    verdict->key = key;
    if (isnan(verdict->gain))
        verdict->gain = gain_without(verdict->share);
    write_text(verdict, "%s (%.1f %% of the towers' time); %s%s", what, 100 * verdict->share, fix,
        gain_words(verdict->gain).text);
}

static void advise_depth(struct verdict *verdict, const char *key, long long depth, const char *what)
{
    char fix[64];
    snprintf(fix, sizeof(fix), "raise %s (now %lld)", key, depth);
    advise_key(verdict, key, what, fix);
}

/* Advise more links if copies run all the time or, on the CPU, a core for them. The assumed gain is at most twice the
 * speed. */
static void advise_on_links(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan)
{
    char fix[128] = "";
    if (!plan->devices.ops->host_memory) {
        verdict->key = "devices.towers";
        snprintf(fix, sizeof(fix), "; towers on more devices have links of their own: raise devices.towers (now %u)",
                 plan->devices.towers.count);
    } else if (plan->threads_per_tower > 1) {
        verdict->key = "devices.threads_per_tower";
        snprintf(fix, sizeof(fix), "; leave a core to the copies: devices.threads_per_tower = %u",
                 plan->threads_per_tower - 1);
    }
    if (verdict->key != NULL)
        verdict->gain = fmin(gain_without(verdict->share), 1);
    write_text(verdict, "copying to the device limits (towers waited %.1f %% of their time; copies ran %.0f %% of it): "
                 "the link to the device is saturated (%spipetrain --doctor measures its speed)%s%s",
        100 * verdict->share, 100 * facts->copying, program_folder(), fix, gain_words(verdict->gain).text);
}

static void advise_on_copies(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan,
                             const struct settings *settings)
{
    if (facts->copying < ALWAYS_BUSY)
        advise_depth(verdict, "input.staging_depth", settings->input.staging_depth,
                     "copying to the device limits, towers waited for it");
    else
        advise_on_links(verdict, facts, plan);
}

/* Advise deeper queues; they do not help if all cores are busy, because then the loader's threads wait for cores. */
static void advise_on_bursts(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan,
                             const struct settings *settings)
{
    if (facts->cores.own > CORES_BUSY) {
        write_text(verdict, "input limits (towers waited %.1f %% of their time), and towers, readers and decoders "
                   "share %u cores that are all busy: %spipetrain --tune finds how many threads each should have",
            100 * verdict->share, plan->cores, program_folder());
        return;
    }
    verdict->gain = fmin(gain_without(verdict->share), 1 / fmax(busiest(facts), 0.01) - 1);
    advise_depth(verdict, "input.prefetch_depth", settings->input.prefetch_depth,
                 "input limits although its stages are idle at times, because batches come in bursts");
}

static void advise_on_compute(struct verdict *verdict, const struct verdict_facts *facts)
{
    write_text(verdict, "compute limits (towers computed %.1f %% of their time, waited %.1f %% for input): input keeps "
               "up", 100 * verdict->share, 100 * input_share(&facts->share));
}

static void advise_on_others(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan)
{
    const bool has_teams = plan->threads_per_tower > 1;
    write_text(verdict, "other programs slowed the run: they used %s, the run itself %.1f (a step took %.2f ms in the "
               "median, %.2f at p99): repeat it when they have ended, or bind them to other cores (taskset)%s",
        others_words(facts, plan).text, plan->cores * facts->cores.own, facts->step.p50_ms, facts->step.p99_ms,
        has_teams ? "; until then devices.threads_per_tower = 1 may be faster, since a tower's threads wait for each "
                    "other" : "");
}

/* The setting of the mode that reduces waiting: relaxed consistency, if the run supports it. */
static const char *find_mode_fix(const struct sync_ops *mode, const struct settings *settings)
{
    const bool may_relax = mode->sums[REGION_GRADIENTS] && !mode->defers && settings->sync.mode != SYNC_ASYNC &&
                           settings->train.on_nan != ON_NAN_SKIP && settings->devices.precision != PRECISION_FP16;
    if (mode->has_period)
        return "a larger sync.every";
    if (settings->sync.mode == SYNC_ASYNC)
        return "a larger sync.max_staleness";
    return may_relax ? "sync.consistency = relaxed" : "another sync.bucket";
}

static void advise_on_reduction(struct verdict *verdict, const struct run_plan *plan, const struct settings *settings)
{
    char fix[128];
    snprintf(fix, sizeof(fix), "a larger train.batch, fewer towers with more threads each, or %s",
             find_mode_fix(plan->devices.mode, settings));
    advise_key(verdict, "train.batch", "reduction limits, towers waited for each other", fix);
}

/* Parts send activations, which grow with the batch, instead of gradients of weights, which do not. Below the batch from
 * which they send more, a larger one still has fewer exchanges for its images. */
static void advise_on_exchanges(struct verdict *verdict, const struct verdict_facts *facts)
{
    const struct parts_gain *const parts = &facts->parts;
    const bool pays = parts->bytes < parts->replicated_bytes;
    const struct number batch = number_grouped(parts->batch);
    char sent[PARTS_TEXT_SIZE], fix[PARTS_TEXT_SIZE + 160];
    parts_gain_describe(parts, sent);
    if (pays)
        snprintf(fix, sizeof(fix), "a larger train.batch (parts pay below %s), or fewer towers with more threads each: %s",
                 batch.text, sent);
    else
        snprintf(fix, sizeof(fix), "leave model.parts out, which pays below a train.batch of %s: %s", batch.text, sent);
    advise_key(verdict, pays ? "train.batch" : "model.parts", "exchanges limit, towers waited for each other's parts of "
               "layers", fix);
}

static void advise(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan,
                   const struct settings *settings)
{
    switch (verdict->limit) {
    case LIMIT_READING: case LIMIT_DECODING: advise_on_loader(verdict, facts, plan); break;
    case LIMIT_BURSTS: advise_on_bursts(verdict, facts, plan, settings); break;
    case LIMIT_COPY: advise_on_copies(verdict, facts, plan, settings); break;
    case LIMIT_SLOTS:
        advise_depth(verdict, "input.staging_depth", settings->input.staging_depth, "towers waited for slots");
        break;
    case LIMIT_REDUCTION: advise_on_reduction(verdict, plan, settings); break;
    case LIMIT_EXCHANGE: advise_on_exchanges(verdict, facts); break;
    case LIMIT_UPDATE:
        advise_key(verdict, "train.batch", "the update of the weights limits",
                   "a larger train.batch (with train.accumulate where memory is short)");
        break;
    case LIMIT_REPORTS:
        advise_key(verdict, "report.interval", "writing reports limits, towers waited for it",
                   "raise report.interval, or write to another disk");
        break;
    case LIMIT_STATES:
        advise_key(verdict, "checkpoint.every", "saving checkpoints limits", "save less often, checkpoint.every");
        break;
    case LIMIT_OTHERS: advise_on_others(verdict, facts, plan); break;
    default: advise_on_compute(verdict, facts);
    }
}

/* The bottleneck as text: "decoding was the bottleneck (2 decoders 100 % busy)". */
struct bottleneck_text { char text[160]; };
static struct bottleneck_text bottleneck_words(enum limit limit, const struct verdict_facts *facts,
                                               const struct run_plan *plan)
{
    const bool decodes = limit == LIMIT_DECODING;
    const uint32_t threads = decodes ? plan->decode_threads : plan->read_threads;
    const double busy = decodes ? facts->busy.decoders : facts->busy.readers;
    struct bottleneck_text words;
    if (limit == LIMIT_REPORTS)
        snprintf(words.text, sizeof(words.text), "writing reports was the bottleneck (main %.0f %% busy)",
                 100 * facts->main_busy);
    else if (limit == LIMIT_COPY)
        snprintf(words.text, sizeof(words.text), "copying to the device was the bottleneck (copies ran %.0f %% of the "
                 "time)", 100 * facts->copying);
    else if (limit == LIMIT_HANDING)
        snprintf(words.text, sizeof(words.text), "passing batches from thread to thread was the bottleneck "
                 "(readers %.0f %% busy, decoders %.0f %%)", 100 * facts->busy.readers, 100 * facts->busy.decoders);
    else
        snprintf(words.text, sizeof(words.text), "%s was the bottleneck (%u %s%s %.0f %% busy)", names[limit], threads,
                 decodes ? "decoder" : "reader", threads == 1 ? "" : "s", 100 * busy);
    return words;
}

static void describe_feed(struct verdict *verdict, const struct verdict_facts *facts, const struct run_plan *plan)
{
    write_text(verdict, "nothing was computed: %s; input alone: %s images/s",
        bottleneck_words(verdict->limit, facts, plan).text, number_rate(facts->images_per_second).text);
}

void verdict_find(const struct verdict_facts *facts, const struct run_plan *plan, const struct settings *settings,
                  struct verdict *verdict_out)
{
    const bool computes = plan->devices.backend->computes;
    *verdict_out = (struct verdict){ .limit = LIMIT_UNKNOWN, .share = NAN, .gain = NAN };
    if (!computes && isfinite(facts->images_per_second)) {
        verdict_out->limit = find_feed_limit(facts);
        describe_feed(verdict_out, facts, plan);
    } else if (facts->steps < VERDICT_STEPS || facts->share.forward + facts->share.backward <= 0) {
        write_text(verdict_out, "too few steps for a verdict, which needs %u", VERDICT_STEPS);
    } else {
        verdict_out->limit = find_limit(facts, plan, settings, &verdict_out->share);
        advise(verdict_out, facts, plan, settings);
    }
    add_slow_rank(verdict_out, facts);
    add_others(verdict_out, facts, plan);
    add_quota(verdict_out, facts);
}

void verdict_write(const struct verdict *verdict, struct json *json)
{
    json_quoted(json, "verdict", verdict->text);
    json_open_object(json, "limit");
    json_quoted(json, "stage", names[verdict->limit]);
    json_double(json, "share", verdict->share);
    json_double(json, "gain", verdict->gain);
    if (verdict->key != NULL)
        json_quoted(json, "key", verdict->key);
    else
        json_verbatim(json, "key", "null");
    json_close_object(json);
}
