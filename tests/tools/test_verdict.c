/* Tests of the verdict: which limit is found from what facts, which key is named, what gain is promised. */
#include <math.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/lib/run/verdict.h"

struct trial {
    struct verdict_facts facts;
    struct run_plan plan;
    struct settings settings;
};

/* Four cores, of which half are used; all towers do is compute. */
static struct trial trial_of(void)
{
    static const struct backend_ops computing = { .computes = true };
    static const struct device_ops host = { .host_memory = true };
    struct trial trial = {
        .facts = { .steps = 1000, .share = { .forward = 0.3, .backward = 0.6, .update = 0.1 }, .cores = { .own = 0.5 },
                   .busy = { .readers = 0.1, .decoders = 0.4 }, .images_per_second = 12345 },
        .plan = { .devices = { .ops = &host, .backend = &computing, .mode = sync_table[SYNC_REPLICATED] },
                  .read_threads = 1, .decode_threads = 2, .cores = 4, .bucket_bytes = 1 << 20 },
        .settings = { .input = { .source = INPUT_REAL, .prefetch_depth = 4, .staging_depth = 2 } },
    };
    return trial;
}

/* Towers wait `wait` of their time for input. */
static void wait_for_input(struct trial *trial, double wait)
{
    trial->facts.share = (struct fractions){ .input_wait = wait, .forward = 0.4 * (1 - wait),
                                             .backward = 0.6 * (1 - wait) };
}

static struct verdict find(const struct trial *trial)
{
    struct verdict verdict;
    verdict_find(&trial->facts, &trial->plan, &trial->settings, &verdict);
    assert_true(strlen(verdict.text) > 0 && strlen(verdict.text) < sizeof(verdict.text) - 1);
    return verdict;
}

static void expect(const struct trial *trial, enum limit limit, const char *key, double gain)
{
    const struct verdict verdict = find(trial);
    assert_int_equal(verdict.limit, limit);
    if (key == NULL)
        assert_null(verdict.key);
    else
        assert_string_equal(verdict.key, key);
    assert_true(isnan(gain) ? isnan(verdict.gain) : fabs(verdict.gain - gain) < 1e-9);
    assert_true(key == NULL || strstr(verdict.text, key) != NULL);
}

TEST(towers_that_compute_all_the_time_are_the_limit)
{
    struct trial trial = trial_of();
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
    wait_for_input(&trial, VERDICT_INPUT_WAIT);
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
    trial.facts.steps = VERDICT_STEPS - 1;
    expect(&trial, LIMIT_UNKNOWN, NULL, NAN);
}

TEST(the_busy_stage_of_the_loader_gets_threads)
{
    struct trial trial = trial_of();
    wait_for_input(&trial, 0.2);
    trial.facts.busy = (struct loader_busy){ .readers = 0.3, .decoders = 1 };
    expect(&trial, LIMIT_DECODING, "input.decode_threads", 0.25);       /* 3 of 2 threads would give 50 % */
    wait_for_input(&trial, 0.5);
    trial.facts.cores.own = 0.6;       /* 1.6 cores are idle: one more thread */
    expect(&trial, LIMIT_DECODING, "input.decode_threads", 0.5);
    assert_non_null(strstr(find(&trial).text, "to 3"));
    trial.facts.cores.own = 0.25;      /* room for as many as it takes */
    expect(&trial, LIMIT_DECODING, "input.decode_threads", 1);
    assert_non_null(strstr(find(&trial).text, "to 4"));
    trial.facts.busy = (struct loader_busy){ .readers = 0.9, .decoders = 0.5 };
    trial.facts.reading_cpu = 1;
    expect(&trial, LIMIT_READING, "input.read_threads", 1);
}

TEST(where_all_cores_are_busy_threads_are_no_cure)
{
    struct trial trial = trial_of();
    wait_for_input(&trial, 0.5);
    trial.facts.busy = (struct loader_busy){ .readers = 0.3, .decoders = 1 };
    trial.facts.cores.own = 0.97;
    expect(&trial, LIMIT_DECODING, NULL, NAN);
    assert_null(strstr(find(&trial).text, "--resize-short"));
    trial.facts.is_encoded = true;
    assert_non_null(strstr(find(&trial).text, "--resize-short"));
    trial.facts.stored_side = 320;
    trial.facts.taken_side = 224;
    expect(&trial, LIMIT_DECODING, NULL, 320.0 * 320 / (256 * 256) - 1);
    assert_non_null(strstr(find(&trial).text, "tfrecord SHARDS -o resized-256 --resize-short=256, up to 56 % more"));
    trial.facts.stored_side = 512;      /* more than what is waited for is not gained */
    expect(&trial, LIMIT_DECODING, NULL, 1);
    trial.facts.stored_side = 256;
    expect(&trial, LIMIT_DECODING, NULL, NAN);
    trial.facts.busy = (struct loader_busy){ .readers = 1, .decoders = 0.3 };
    trial.facts.reading_cpu = 0.1;      /* waiting for files takes no core */
    expect(&trial, LIMIT_READING, "input.read_threads", 1);
    assert_non_null(strstr(find(&trial).text, "waiting for files"));
}

TEST(cores_that_others_use_are_reported)
{
    struct trial trial = trial_of();
    wait_for_input(&trial, 0.5);
    trial.facts.busy = (struct loader_busy){ .readers = 0.3, .decoders = 1 };
    trial.facts.cores.own = 0.3;
    trial.facts.cores.others = 0.65;     /* one thread more at most, not the four that there would be room for */
    expect(&trial, LIMIT_DECODING, "input.decode_threads", 0.5);
    assert_non_null(strstr(find(&trial).text, "to 3, up to 50 % more images/s; other programs used 2.6 of the 4 cores: "
                                              "repeat the run"));
    trial.facts.cores.others = 0.05;
    assert_null(strstr(find(&trial).text, "other programs"));
}

TEST(a_quota_that_was_used_up_is_reported)
{
    struct trial trial = trial_of();
    assert_null(strstr(find(&trial).text, "quota"));
    trial.facts.cores.throttled = 0.41;
    assert_non_null(strstr(find(&trial).text, "; the CPU quota of the control group was used up in 41 % of its periods: "
                           "raise it"));
}

/* Two towers of two threads on four cores. */
TEST(towers_that_share_their_cores_do_not_call_it_computing)
{
    struct trial trial = trial_of();
    trial.plan.devices.towers.count = trial.plan.threads_per_tower = 2;
    trial.facts.cores = (struct cores_use){ .own = 0.6, .others = 0.35, .stolen = 0 };
    trial.facts.step = (struct step_percentiles){ 10, 15, 40 };
    expect(&trial, LIMIT_OTHERS, NULL, NAN);
    assert_non_null(strstr(find(&trial).text, "used 1.4 of the 4 cores, the run itself 2.4 (a step took 10.00 ms in "
                                              "the median, 40.00 at p99)"));
    assert_non_null(strstr(find(&trial).text, "devices.threads_per_tower = 1 may be faster"));
    trial.plan.threads_per_tower = 1;
    assert_null(strstr(find(&trial).text, "threads_per_tower"));
    trial.plan.threads_per_tower = 2;
    trial.facts.cores = (struct cores_use){ .own = 0.6, .others = 0.05, .stolen = 0.3 };
    expect(&trial, LIMIT_OTHERS, NULL, NAN);
    assert_non_null(strstr(find(&trial).text, "the virtual machine's host 1.2 more"));
    trial.facts.cores = (struct cores_use){ .own = 0.6, .others = 0.2 };        /* others leave cores idle */
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
    trial.facts.cores = (struct cores_use){ .own = 0.93, .others = 0.05 };
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
    trial.facts.cores = (struct cores_use){ .own = 0.6, .others = NAN, .stolen = NAN };
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
    trial.facts.cores = (struct cores_use){ .own = 0.25, .others = 0.75 };
    trial.plan.devices.towers.count = trial.plan.threads_per_tower = 1;      /* it has the one core that it can use */
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
}

TEST(a_loader_that_is_idle_at_times_needs_depth)
{
    struct trial trial = trial_of();
    wait_for_input(&trial, 0.1);
    trial.facts.busy = (struct loader_busy){ .readers = 0.1, .decoders = 0.5 };
    expect(&trial, LIMIT_BURSTS, "input.prefetch_depth", 1 / 0.9 - 1);
    trial.facts.busy.decoders = 0.7;
    wait_for_input(&trial, 0.6);        /* more than the decoders could give */
    expect(&trial, LIMIT_BURSTS, "input.prefetch_depth", 1 / 0.7 - 1);
    trial.facts.cores.own = 0.95;      /* they wait for a core, which more depth has not */
    expect(&trial, LIMIT_BURSTS, NULL, NAN);
    trial.settings.input.source = INPUT_SYNTHETIC;
    expect(&trial, LIMIT_SLOTS, "input.staging_depth", 1.5);
}

TEST(copies_limit_where_batches_wait_for_them)
{
    struct trial trial = trial_of();
    wait_for_input(&trial, 0.5);
    trial.facts.copying = 0.6;
    trial.facts.ring_empty = 0.1;
    expect(&trial, LIMIT_COPY, "input.staging_depth", 1);
    trial.facts.copying = 0.95;
    expect(&trial, LIMIT_COPY, NULL, NAN);
    trial.facts.ring_empty = 0.9;       /* there was nothing to copy */
    expect(&trial, LIMIT_BURSTS, "input.prefetch_depth", 1);
    trial.facts.share.exposed_copy = 0.3;
    trial.facts.share.input_wait = 0.2;
    expect(&trial, LIMIT_COPY, NULL, NAN);
}

TEST(copies_that_always_run_need_another_way)
{
    static const struct device_ops gpu = { .host_memory = false };
    struct trial trial = trial_of();
    wait_for_input(&trial, 0.3);
    trial.facts.copying = 0.95;
    trial.plan.threads_per_tower = 4;
    expect(&trial, LIMIT_COPY, "devices.threads_per_tower", 1 / 0.7 - 1);
    assert_non_null(strstr(find(&trial).text, "devices.threads_per_tower = 3, up to 43 % more images/s"));
    trial.plan.devices.ops = &gpu;
    trial.plan.devices.towers.count = 2;
    expect(&trial, LIMIT_COPY, "devices.towers", 1 / 0.7 - 1);
    assert_non_null(strstr(find(&trial).text, "raise devices.towers (now 2), up to 43 % more images/s"));
    wait_for_input(&trial, 0.9);        /* twice as many ways are twice as fast at most */
    expect(&trial, LIMIT_COPY, "devices.towers", 1);
}

TEST(the_largest_loss_is_the_limit)
{
    struct trial trial = trial_of();
    trial.facts.share = (struct fractions){ .forward = 0.3, .backward = 0.4, .exposed_reduction = 0.2, .update = 0.1 };
    expect(&trial, LIMIT_REDUCTION, "train.batch", 0.25);
    trial.facts.share = (struct fractions){ .forward = 0.2, .backward = 0.3, .exposed_reduction = 0.2, .update = 0.3 };
    expect(&trial, LIMIT_UPDATE, "train.batch", 1 / 0.7 - 1);
    trial.facts.share = (struct fractions){ .forward = 0.2, .backward = 0.3, .exposed_reduction = 0.1, .other = 0.4 };
    trial.facts.main_busy = 0.9;
    expect(&trial, LIMIT_REPORTS, "report.interval", 1 / 0.6 - 1);
    trial.facts.main_busy = 0.1;        /* of what it is nothing is known: it hides nothing */
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
    trial.facts.share.input_wait = 0.1;
    trial.facts.busy.decoders = 1;
    trial.facts.share.exposed_reduction = 0;
    expect(&trial, LIMIT_DECODING, "input.decode_threads", 1 / 0.9 - 1);
    trial.settings.checkpoint.each_epoch = true;
    expect(&trial, LIMIT_STATES, "checkpoint.every", 1 / 0.6 - 1);
}

TEST(exchanges_of_parts_are_a_limit_of_their_own)
{
    struct trial trial = trial_of();
    trial.facts.share = (struct fractions){ .forward = 0.3, .backward = 0.4, .exposed_reduction = 0.1,
                                            .exposed_exchange = 0.2 };
    trial.facts.parts = (struct parts_gain){ .bytes = 85349999, .replicated_bytes = 433123456, .batch = 1200 };
    expect(&trial, LIMIT_EXCHANGE, "train.batch", 0.25);
    assert_non_null(strstr(find(&trial).text, "a larger train.batch (parts pay below 1,200), or fewer towers with more "
                           "threads each: a tower sends 85.3 MB in a step instead of 433.1 MB"));
    trial.facts.parts.replicated_bytes = 85000000;
    expect(&trial, LIMIT_EXCHANGE, "model.parts", 0.25);
    assert_non_null(strstr(find(&trial).text, "leave model.parts out, which pays below a train.batch of 1,200: a tower"));
    trial.facts.share.exposed_exchange = VERDICT_REDUCTION;
    expect(&trial, LIMIT_COMPUTE, NULL, NAN);
}

TEST(a_rank_for_which_the_others_wait_is_named)
{
    struct trial trial = trial_of();
    trial.facts.step_ms = 100;
    trial.facts.last = (struct last_rank){ .steps = 1000, .ranks = 64, .rank = 37, .together = 1, .share = 0.81,
                                            .behind_ms = 14, .most_ms = 30, .waited_ms = 20, .certainty = 9 };
    assert_null(strstr(find(&trial).text, "was last"));         /* one process */
    trial.facts.last_name = "rank 37 (node12)";
    assert_non_null(strstr(find(&trial).text, "; rank 37 (node12) was last in 81 % of the sums, 14 ms behind the median "
                           "of the others: look for other programs"));
    trial.facts.last.input_ms = 8;
    assert_non_null(strstr(find(&trial).text, "of the others: it waited for input"));
    trial.facts.last.behind_ms = 4.9;
    assert_null(strstr(find(&trial).text, "was last"));
    trial.facts.last.behind_ms = 5.04;
    assert_non_null(strstr(find(&trial).text, ", 5.0 ms behind"));
    trial.facts.last.certainty = 3.9;
    assert_null(strstr(find(&trial).text, "was last"));
    trial.facts.last.certainty = 4;
    trial.facts.last.together = 2;
    trial.facts.last_host = "node12";
    assert_non_null(strstr(find(&trial).text, "; all 2 ranks of node12 are late together: rank 37 (node12) was last in 81 %"));
    trial.facts.last = (struct last_rank){ .steps = 1000, .ranks = 64, .rank = 37, .together = 1, .share = 0.02,
                                           .behind_ms = 0.15, .most_ms = 52, .waited_ms = 0.3, .certainty = 5 };
    trial.facts.step_ms = 1.3;
    assert_non_null(strstr(find(&trial).text, "; rank 37 (node12) was last in 2 % of the sums, 0.15 ms behind the median "
                           "of the others in the mean, as it stands still now and then (for up to 52 ms): look for"));
}

TEST(relaxed_consistency_is_named_where_the_mode_can_have_it)
{
    static const bool may[SYNC_MODE_COUNT] = { [SYNC_REPLICATED] = true, [SYNC_SERVER_DEVICE] = true,
                                               [SYNC_SERVER_HOST] = true };
    struct trial trial = trial_of();
    trial.facts.share = (struct fractions){ .forward = 0.3, .backward = 0.4, .exposed_reduction = 0.2, .update = 0.1 };
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++) {
        trial.plan.devices.mode = sync_table[mode];
        trial.settings.sync.mode = (enum sync_mode)mode;
        assert_int_equal(strstr(find(&trial).text, "sync.consistency = relaxed") != NULL, may[mode]);
        trial.settings.train.on_nan = ON_NAN_SKIP;
        assert_null(strstr(find(&trial).text, "sync.consistency = relaxed"));
        trial.settings.train.on_nan = ON_NAN_STOP;
    }
}

/* Nothing computes, and towers wait for input all the time. */
static struct trial feed_of(void)
{
    static const struct backend_ops nothing = { .computes = false };
    struct trial trial = trial_of();
    trial.plan.devices.backend = &nothing;
    trial.facts.share = (struct fractions){ .input_wait = 0.9, .exposed_copy = 0.04, .other = 0.06 };
    trial.facts.ring_empty = 1;
    return trial;
}

TEST(without_computing_the_busiest_stage_sets_the_pace)
{
    struct trial trial = feed_of();
    trial.facts.busy = (struct loader_busy){ .readers = 0.4, .decoders = 0.8 };
    expect(&trial, LIMIT_DECODING, NULL, NAN);
    assert_non_null(strstr(find(&trial).text, "12,345 images/s"));
    trial.facts.busy = (struct loader_busy){ .readers = 0.9, .decoders = 0.8 };
    expect(&trial, LIMIT_READING, NULL, NAN);
    trial.facts.busy = (struct loader_busy){ .readers = 0.3, .decoders = 0.2 };
    trial.facts.main_busy = 0.8;        /* but towers do not wait for it */
    expect(&trial, LIMIT_HANDING, NULL, NAN);
    assert_non_null(strstr(find(&trial).text, "readers 30 % busy, decoders 20 %"));
    trial.facts.images_per_second = NAN;        /* it ended while it warmed up */
    expect(&trial, LIMIT_UNKNOWN, NULL, NAN);
}

TEST(without_computing_copies_and_reports_can_set_the_pace)
{
    struct trial trial = feed_of();
    trial.facts.busy.decoders = 0.9;    /* which is what a decoder looks like that waits for the processor */
    trial.facts.share = (struct fractions){ .input_wait = 0.02, .exposed_copy = 0.97, .other = 0.01 };
    trial.facts.copying = 0.97;
    expect(&trial, LIMIT_COPY, NULL, NAN);
    assert_non_null(strstr(find(&trial).text, "copies ran 97 %"));
    trial.facts.share = (struct fractions){ .input_wait = 0.9, .exposed_copy = 0.1 };
    expect(&trial, LIMIT_DECODING, NULL, NAN);          /* nothing was there to copy */
    trial.facts.ring_empty = 0.1;
    expect(&trial, LIMIT_COPY, NULL, NAN);
    trial.facts.share = (struct fractions){ .input_wait = 0.2, .exposed_copy = 0.1, .other = 0.7 };
    trial.facts.main_busy = 0.9;
    expect(&trial, LIMIT_REPORTS, NULL, NAN);
    assert_non_null(strstr(find(&trial).text, "main 90 % busy"));
}

TESTS_MAIN(NULL, NULL)
