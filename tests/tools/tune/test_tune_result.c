/* Tests of what --tune tries next, what it chooses of settings that ran, and how it explains that. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/text_stream.h"
#include "tests/helpers/test.h"
#include "tools/tune/tune_report.h"
#include "tools/tune/tune_result.h"

/* ---- proposals ---- */

static const struct tune_space eight_cores = { .cores = 8, .has_cpu_towers = true, .towers = 1,
                                               .default_prefetch_depth = 4, .default_staging_depth = 2 };
static const struct tune_setting starved = { .tower_threads = 4, .readers = 1, .decoders = 1, .prefetch_depth = 4,
                                             .staging_depth = 2 };
static struct tune_proposal proposals[TUNE_PROPOSALS_MAX];

/* A run that waits half of its time for what `limit` names. */
static struct trial_result waiting(const char *limit)
{
    struct trial_result result = {
        .limit_gain = 0.9, .values.share = { .input_wait = 0.5, .forward = 0.2, .backward = 0.3 },
        .values.feed.busy = { 0.1, 0.1 }, .values.run.cores.own = 0.5, .values.run.reading_computed = 1 };
    snprintf(result.limit, sizeof(result.limit), "%s", limit);
    return result;
}

static uint32_t find(uint32_t count, struct tune_setting setting)
{
    for (uint32_t i = 0; i < count; i++)
        if (tune_same_setting(&proposals[i].setting, &setting))
            return i;
    return count;
}

TEST(the_key_that_the_verdict_names_is_tried_first)
{
    struct tune_setting readers = starved, decoders = starved, depth = starved, slots = starved;
    readers.readers = 2;
    decoders.decoders = 2;
    depth.prefetch_depth = 16;
    slots.staging_depth = 4;
    const struct { const char *limit; struct tune_setting first; } limits[] = {
        { "reading", readers }, { "decoding", decoders }, { "bursts", depth }, { "copying", slots } };
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        const struct trial_result measured = waiting(limits[i].limit);
        const uint32_t count = tune_propose(&eight_cores, &starved, &measured, proposals);
        assert_true(count > 1);
        assert_int_equal(find(count, limits[i].first), 0);
        assert_float_equal(proposals[0].gain, 0.9, 1e-9);
        for (uint32_t j = 1; j < count; j++)
            assert_true(proposals[j].gain <= proposals[j - 1].gain);
    }
}

TEST(as_many_threads_as_the_towers_need_are_tried)
{
    struct trial_result measured = waiting("reading");
    struct tune_setting wanted = starved;
    measured.values.feed.busy.readers = 1;
    measured.values.share.input_wait = 0.8125;  /* 5.3 readers, and a power of two */
    wanted.readers = 8;
    assert_int_equal(find(tune_propose(&eight_cores, &starved, &measured, proposals), wanted), 0);
    measured = waiting("decoding");
    measured.values.feed.busy.decoders = 1;
    measured.values.share.input_wait = 0.8125;
    wanted = starved;
    wanted.decoders = 6;
    assert_int_equal(find(tune_propose(&eight_cores, &starved, &measured, proposals), wanted), 0);
    measured.values.share.input_wait = 0.99;    /* no more decoders than cores, no more readers than 16 */
    wanted.decoders = 8;
    assert_int_equal(find(tune_propose(&eight_cores, &starved, &measured, proposals), wanted), 0);
}

TEST(where_nothing_waits_only_threads_of_towers_are_tried)
{
    struct trial_result measured = { .values.run.cores.own = 0.5, .values.share = { .forward = 0.4, .backward = 0.6 } };
    struct tune_setting more = starved, fewer = starved;
    more.tower_threads = 8;
    fewer.tower_threads = 2;
    assert_int_equal(tune_propose(&eight_cores, &starved, &measured, proposals), 2);
    assert_int_equal(find(2, more), 0);         /* half of the cores are idle */
    assert_int_equal(find(2, fewer), 1);
    struct tune_space gpu = eight_cores;
    gpu.has_cpu_towers = false;
    assert_int_equal(tune_propose(&gpu, &starved, &measured, proposals), 0);
}

TEST(shards_in_memory_are_tried_where_readers_wait_for_files)
{
    struct trial_result measured = waiting("reading");
    struct tune_setting cached = starved;
    cached.is_cached = true;
    measured.values.feed.busy.readers = 0.9;
    measured.values.run.reading_computed = 0.1;
    assert_int_equal(find(tune_propose(&eight_cores, &starved, &measured, proposals), cached), 1);
    measured.values.run.reading_computed = 0.9;
    const uint32_t count = tune_propose(&eight_cores, &starved, &measured, proposals);
    assert_int_equal(find(count, cached), count);
}

TEST(a_setting_has_its_keys)
{
    const struct tune_setting setting = { 3, 1, 2, 4, 5, true };
    struct config_change changes[TUNE_CHANGES_MAX];
    assert_int_equal(tune_changes(&setting, NULL, true, changes), 6);
    assert_string_equal(changes[0].key, "source");
    assert_string_equal(changes[0].value, "cached");
    assert_string_equal(changes[1].key, "prefetch_depth");
    assert_string_equal(changes[1].value, "4");
    assert_string_equal(changes[5].section, "devices");
    assert_string_equal(changes[5].value, "3");
    assert_int_equal(tune_changes(&setting, NULL, false, changes), 5);
    struct tune_setting other = setting;
    assert_int_equal(tune_changes(&setting, &other, true, changes), 0);
    other.decoders = 1;
    assert_int_equal(tune_changes(&setting, &other, true, changes), 1);
    assert_string_equal(changes[0].key, "decode_threads");
}

/* ---- the choice ---- */

static struct tune_candidate ran(struct tune_setting setting, double speed, double wait, uint32_t rounds)
{
    struct tune_candidate candidate = { .setting = setting, .tried_speed = speed, .tried_wait = wait,
                                        .rounds = rounds, .planned_bytes = 3 << 20 };
    for (uint32_t i = 0; i < rounds; i++) {
        candidate.speeds[i] = speed * (1 + 0.1 * i);    /* the machine becomes faster */
        candidate.waits[i] = wait;
    }
    return candidate;
}

/* As configured, with two decoders, with more depth. */
static struct tune_result three(double now, double more_decoders, double more_depth)
{
    return (struct tune_result){
        .space = { .cores = 8, .towers = 1 },
        .candidates = { ran((struct tune_setting){ 1, 1, 1, 4, 2, false }, now, 0.2, 3),
                        ran((struct tune_setting){ 1, 1, 2, 4, 2, false }, more_decoders, 0.1, 3),
                        ran((struct tune_setting){ 1, 1, 1, 8, 2, false }, more_depth, 0.1, 3) },
        .count = 3, .compared = 3, .rounds = 3, .trial_seconds = 1, .round_seconds = 2, .seconds = 50,
        .towers_alone = 10, .input_alone = 10, .verdict = "decoding limits",
    };
}

static char *reported(const struct tune_result *result)
{
    char *text;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    assert_non_null(out);
    tune_report(result, out);
    assert_int_equal(text_stream_end(out, &text), 0);
    return text;
}

/* Words as on one line, with one blank between them. */
static void join(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++)
        if (*from > ' ')
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    *to = '\0';
}

static void expect_words(const struct tune_result *result, const char *words, bool are_there)
{
    char *const text = reported(result);
    join(text);
    if ((strstr(text, words) != NULL) != are_there)
        fail_msg("%s: '%s' in '%s'", are_there ? "missing" : "unexpected", words, text);
    free(text);
}

TEST(the_fastest_in_the_rounds_is_the_best)
{
    struct tune_result result = three(10, 15, 12);
    tune_choose(&result);
    assert_int_equal(result.best, 1);
    assert_int_equal(tune_kind_of(&result), TUNE_CHANGED);
    assert_float_equal(result.gain, 0.5, 1e-9);
    assert_float_equal(tune_candidate_speed(&result.candidates[0]), 11, 1e-9);
    assert_float_equal(tune_candidate_range(&result.candidates[0]), 1.0 / 11, 1e-9);
    char *const text = reported(&result);
    assert_non_null(strstr(text, "\nset\n\n[input]\ndecode_threads = 2\n"));
    assert_null(strstr(text, "prefetch_depth ="));
    free(text);
    result.candidates[1].setting.prefetch_depth = 12;
    expect_words(&result, "reason other numbers of threads and another depth: 50.0 % more images/s", true);
}

TEST(of_equal_speeds_the_one_with_fewer_threads_is_better)
{
    struct tune_result result = three(10, 15, 14.95);
    tune_choose(&result);
    assert_int_equal(result.best, 2);
    expect_words(&result, "reason another depth: ", true);
    expect_words(&result, "set [input] prefetch_depth = 8", true);
}

TEST(what_cannot_be_measured_changes_nothing)
{
    struct tune_result result = three(10, 10.15, 10.1);
    tune_choose(&result);
    assert_int_equal(result.best, 0);
    result = three(10, 10.5, 9);
    result.candidates[1].speeds[0] = 9.9;       /* faster in two rounds of three: chance */
    tune_choose(&result);
    assert_int_equal(result.best, 0);
    expect_words(&result, "set nothing: the configuration stays as it is", true);
    result = three(10, 15, 12);
    result.candidates[1].is_refused = true;
    result.candidates[1].rounds = 0;
    tune_choose(&result);
    assert_int_equal(result.best, 2);
    expect_words(&result, "1 1 2 4 2 needs too much memory", true);
}

TEST(a_single_round_has_to_show_a_large_gain)
{
    static const struct { double speed; uint32_t best; } rows[] = { { 10.8, 0 }, { 11.2, 1 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct tune_result result = three(10, rows[i].speed, 10);
        for (uint32_t c = 0; c < 3; c++)
            result.candidates[c].rounds = 1;
        tune_choose(&result);
        assert_int_equal(result.best, rows[i].best);
    }
}

TEST(the_fastest_are_the_finalists)
{
    uint32_t finalists[5];
    struct tune_result result = { .rounds = 0, .count = 6 };
    const double speeds[] = { 10, 15, 8, 12, 20, 13 };
    for (uint32_t i = 0; i < 6; i++)
        result.candidates[i] = ran((struct tune_setting){ 1, 1, i, 4, 2, false }, speeds[i], 0, 0);
    assert_int_equal(tune_finalists(&result, 5, finalists), 5); /* not the third, which is slower */
    const uint32_t all[] = { 0, 4, 1, 5, 3 };
    assert_memory_equal(finalists, all, sizeof(all));
    assert_int_equal(tune_finalists(&result, 3, finalists), 3);
    assert_memory_equal(finalists, all, 3 * sizeof(*all));
    result.candidates[4].is_refused = true;
    result.rounds = 1;
    for (uint32_t i = 0; i < 4; i++)                            /* the last took part in no round */
        result.candidates[i].speeds[result.candidates[i].rounds++] = speeds[i];
    assert_int_equal(tune_finalists(&result, 5, finalists), 3);
    assert_int_equal(finalists[1], 1);
    assert_int_equal(finalists[2], 3);
}

/* ---- the reason ---- */

TEST(a_deficit_is_explained_with_what_would_help)
{
    static const struct { uint32_t stored, taken; bool decodes; const char *fix; } rows[] = {
        { 512, 224, true, "fix store smaller images (short side 256: about 16,667 images/s decoded instead of 4,167): "
                          "pipetrain-convert tfrecord SHARDS -o resized-256 --resize-short=256" },
        { 256, 224, true, "fix store pixels, which need no decoding: pipetrain-convert tfrecord SHARDS -o raw --raw" },
        { 0, 0, true, "fix more cores" },
        { 0, 0, false, "fix reading limits: a faster disk, or input.source = cached" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct tune_result result = three(10, 10, 10);
        result.towers_alone = 10000;
        result.input_alone = 4166.7;
        result.stored_side = rows[i].stored;
        result.taken_side = rows[i].taken;
        result.decoding_is_slower = rows[i].decodes;
        tune_choose(&result);
        assert_int_equal(tune_kind_of(&result), TUNE_DEFICIT);
        expect_words(&result, "reason a deficit: the input pipeline alone gives 4,167 of the 10,000 images/s", true);
        expect_words(&result, rows[i].fix, true);
        expect_words(&result, "set nothing", true);
    }
}

TEST(what_is_still_missing_is_explained)
{
    struct tune_result result = three(5, 7.5, 6);
    result.input_alone = 8;
    tune_choose(&result);
    expect_words(&result, "% more images/s still a deficit: the input pipeline alone gives 8.00 of the 10 images/s",
                 true);
    result.space.has_cpu_towers = true;
    result.input_alone = 10;
    expect_words(&result, "still towers and input share 8 cores: together 8.25 images/s, while the towers alone "
                          "compute 10 and the input pipeline alone gives 10", true);
    result = three(5, 5, 5);
    result.space.has_cpu_towers = true;
    tune_choose(&result);
    assert_int_equal(tune_kind_of(&result), TUNE_SHARED);
    expect_words(&result, "reason towers and input share 8 cores", true);
    expect_words(&result, " still ", false);
}

TEST(towers_that_do_not_wait_are_fed)
{
    struct tune_result result = three(10, 10, 10);
    tune_choose(&result);
    assert_int_equal(tune_kind_of(&result), TUNE_UNEVEN);
    expect_words(&result, "fast enough on average (10 of 10 images/s) but not evenly", true);
    result.towers_alone = result.input_alone = NAN;     /* no time for it */
    assert_int_equal(tune_kind_of(&result), TUNE_UNKNOWN);
    expect_words(&result, "of the run as configured: decoding limits", true);
    expect_words(&result, "nan", false);
    for (uint32_t i = 0; i < 3; i++)
        result.candidates[0].waits[i] = 0.001;
    assert_int_equal(tune_kind_of(&result), TUNE_FED);
    expect_words(&result, "reason towers wait 0.1 % of their time for input: the input pipeline keeps up", true);
}

TEST(without_time_nothing_is_recommended)
{
    struct tune_result result = three(10, 15, 12);
    result.count = 1;
    result.rounds = result.candidates[0].rounds = 0;
    result.enough_seconds = 40;
    result.towers_alone = result.input_alone = NAN;
    tune_choose(&result);
    assert_int_equal(tune_kind_of(&result), TUNE_UNTRIED);
    expect_words(&result, "search no other setting tried", true);
    expect_words(&result, "reason there was no time to try another setting: --tune=40; of the run as configured: "
                          "decoding limits set nothing", true);
    expect_words(&result, "nan", false);
}

TEST(shards_in_memory_are_recommended)
{
    struct tune_result result = three(10, 11, 15);
    result.candidates[2].setting = result.candidates[0].setting;
    result.candidates[2].setting.is_cached = true;
    tune_choose(&result);
    expect_words(&result, "1 1 1 4 2c", true);
    expect_words(&result, "<: best; c: with input.source = cached", true);
    expect_words(&result, "the shards fit into memory: 50.0 % more images/s once they are read set [input] source = "
                          "cached", true);
}

TEST(other_programs_are_named)
{
    struct tune_result result = three(10, 10, 10);
    result.other_load = 0.25;
    expect_words(&result, "note other programs used 2.0 of the 8 cores meanwhile", true);
    result.other_load = 0.05;
    expect_words(&result, "other programs", false);
}

/* As if the program had been found in PATH: printed commands have no folder. */
static int found_in_path(void **state)
{
    static char name[] = "pipetrain";
    (void)state;
    program_invocation_name = name;
    return 0;
}

TESTS_MAIN(found_in_path, NULL)
