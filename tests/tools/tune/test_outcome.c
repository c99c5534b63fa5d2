/* Tests of what is chosen of settings that ran. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/text_stream.h"
#include "tests/helpers/test.h"
#include "tools/tune/assignments.h"
#include "tools/tune/outcome.h"
#include "tools/tune/tune_report.h"

static const double second[] = { 1.0 }, half[] = { 0.5 }, slow[] = { 1.2 };

#define TIMES(array) { array, sizeof(array) / sizeof(*(array)) }

static struct candidate ran(struct feed_setting setting, double speed, double wait, uint32_t rounds)
{
    struct candidate candidate = { .setting = setting, .rounds = rounds, .planned_bytes = 3 << 20 };
    for (uint32_t i = 0; i < rounds; i++) {
        candidate.speeds[i] = speed * (1 + 0.1 * i);    /* the machine becomes faster */
        candidate.waits[i] = wait;
    }
    return candidate;
}

/* As it is, and two others; a step of a second, a batch of 10 in two pieces. */
static struct tune_outcome three(double now, double more_decoders, double more_depth)
{
    return (struct tune_outcome){
        .model = { .read = TIMES(half), .decode = TIMES(half), .step = { TIMES(second) }, .step_threads = { 1 },
                   .step_kinds = 1, .pieces = 2, .between = 4, .towers = 1, .batch = 10, .cores = 8, .decode_cores = 1,
                   .loader_weight = 1, .crowding = 1 },
        .candidates = { ran((struct feed_setting){ 1, 1, 1, 4, 2 }, now, 0.2, 3),
                        ran((struct feed_setting){ 1, 2, 1, 4, 2 }, more_decoders, 0.1, 3),
                        ran((struct feed_setting){ 1, 1, 1, 8, 2 }, more_depth, 0.1, 3) },
        .count = 3, .rounds = 3, .trial_seconds = 1,
    };
}

/* As one line, with one blank between words. */
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

static char *reported(const struct tune_outcome *outcome)
{
    char *text;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(tune_report(outcome, out), 0);
    assert_int_equal(text_stream_end(out, &text), 0);
    return text;
}

TEST(the_fastest_is_the_best_by_rounds)
{
    struct tune_outcome outcome = three(10, 15, 12);
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 1);
    assert_int_equal(outcome.kind, TUNE_THREADS);
    assert_float_equal(outcome.gain, 0.5, 1e-9);
    assert_float_equal(candidate_speed(&outcome.candidates[0]), 11, 1e-9);
    assert_float_equal(candidate_range(&outcome.candidates[0]), 1.0 / 11, 1e-9);
    char *const text = reported(&outcome);
    assert_non_null(strstr(text, "\nset\n\n[input]\ndecode_threads = 2\n"));
    assert_null(strstr(text, "prefetch_depth ="));
    free(text);
}

TEST(what_is_as_fast_with_fewer_threads_is_better)
{
    struct tune_outcome outcome = three(10, 15, 14.95);
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 2);
    assert_int_equal(outcome.kind, TUNE_SPREAD);
    char *const text = reported(&outcome);
    assert_non_null(strstr(text, "[input]\nprefetch_depth = 8\n"));
    assert_non_null(strstr(text, "reason    spread: "));
    free(text);
}

TEST(what_cannot_be_measured_changes_nothing)
{
    struct tune_outcome outcome = three(10, 10.15, 10.1);
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 0);
    outcome = three(10, 10.5, 9);
    outcome.candidates[1].speeds[0] = 9.9;      /* faster in two rounds of three: chance */
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 0);
    outcome = three(10, 15, 12);
    outcome.candidates[1].is_refused = true;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 2);
    char *const text = reported(&outcome);
    assert_non_null(strstr(text, "needs too much memory\n"));
    free(text);
}

TEST(one_round_has_to_say_much)
{
    struct tune_outcome outcome = three(10, 10.8, 10);
    for (uint32_t i = 0; i < 3; i++)
        outcome.candidates[i].rounds = 1;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 0);
    outcome.candidates[1].speeds[0] = 11.2;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 1);
}

TEST(a_deficit_is_told_with_how_long_a_queue_lasts)
{
    struct tune_outcome outcome = three(10, 10, 10);
    outcome.model.decode = (struct feed_times)TIMES(slow);      /* 2.4 s a batch, a step takes 1 */
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_DEFICIT);
    assert_float_equal(outcome.wanted, 10, 1e-9);
    assert_float_equal(outcome.given, 10 / 2.4, 1e-2);
    assert_float_equal(outcome.drain_steps, 6 / (1 - 1 / 2.4), 0.1);
    char *const text = reported(&outcome);
    assert_non_null(strstr(text, "reason    a deficit: the feed gives 4.17 of the 10 images/s"));
    assert_non_null(strstr(text, "last for 10 steps"));
    assert_non_null(strstr(text, "set       nothing: the configuration stays as it is\n"));
    free(text);
}

static void expect_words(const struct tune_outcome *outcome, const char *words, bool are_there)
{
    char *const text = reported(outcome);
    join(text);
    assert_int_equal(strstr(text, words) != NULL, are_there);
    free(text);
}

TEST(a_deficit_of_decoding_tells_what_smaller_images_would_give)
{
    struct tune_outcome outcome = three(10, 10, 10);
    outcome.model.decode = (struct feed_times)TIMES(slow);
    outcome.model.batch = 10000;
    outcome.candidates[0].predicted = (struct feed_prediction){ .decoders_busy = 1, .cores_busy = 7.8 };
    outcome.stored_side = 512;
    outcome.taken_side = 224;
    assert_int_equal(outcome_judge(&outcome), 0);
    expect_words(&outcome, "cure 8 of 8 cores busy, 4,167 images/s decoded, 10,000 wanted: shards at 256 pixels would "
                           "give about 16,667: pipetrain-convert tfrecord SHARDS -o resized-256 --resize-short=256",
                 true);
    outcome.stored_side = 256;          /* as small as that already */
    expect_words(&outcome, "pipetrain-convert tfrecord SHARDS -o raw --raw", true);
    outcome.stored_side = 0;            /* pixels as they are */
    expect_words(&outcome, "10,000 wanted: it takes more cores", true);
    expect_words(&outcome, "pipetrain-convert", false);
    outcome.candidates[0].predicted.readers_busy = 2;
    expect_words(&outcome, "input.source = cached", true);
}

TEST(a_deficit_that_stays_is_told_with_its_cure)
{
    struct tune_outcome outcome = three(10, 15, 12);
    outcome.model.decode = (struct feed_times)TIMES(slow);      /* twice as many decoders are not enough either */
    outcome.candidates[1].predicted = (struct feed_prediction){ .decoders_busy = 2, .cores_busy = 3 };
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_THREADS);
    expect_words(&outcome, "reason other numbers of threads: 50.0 % more images/s still a deficit: the feed gives "
                           "8.33 of the 10 images/s", true);
    expect_words(&outcome, "cure 3 of 8 cores busy, 8.33 images/s decoded, 10 wanted: ", true);
    outcome = three(10, 10, 15);
    outcome.model.decode = (struct feed_times)TIMES(slow);
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_DEPTH);         /* it is no spread: the feed lacks something on average */
    expect_words(&outcome, "reason another depth: 50.0 % more images/s still a deficit: ", true);
    expect_words(&outcome, "fast enough on average", false);
    outcome = three(10, 15, 12);
    outcome.model.decode = (struct feed_times)TIMES(slow);
    outcome.rounds = 0;
    for (uint32_t i = 0; i < 3; i++)
        outcome.candidates[i].rounds = 0;
    assert_int_equal(outcome_judge(&outcome), 0);
    expect_words(&outcome, "reason there was no time", true);
    expect_words(&outcome, "still a deficit: the feed gives 4.17 of the 10 images/s", true);
}

TEST(cores_that_towers_and_feed_share_are_told_with_a_cure)
{
    struct tune_outcome outcome = three(5, 7, 5);
    outcome.model.steps_on_cores = true;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_THREADS);
    expect_words(&outcome, "still 7.70 of the 10 images/s that the towers would take: they and the feed compute on the "
                           "same 8 cores cure more cores set", true);
    outcome = three(5, 5, 5);
    outcome.model.steps_on_cores = true;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_SHARED);
    expect_words(&outcome, "measurably better was found cure more cores set", true);
    outcome.stored_side = 64;
    outcome.taken_side = 32;
    expect_words(&outcome, "cure more cores, or fewer for the feed: shards at 37 pixels would give about ", true);
    expect_words(&outcome, " still ", false);
}

TEST(other_programs_are_named)
{
    struct tune_outcome outcome = three(10, 10, 10);
    outcome.others = 0.25;
    assert_int_equal(outcome_judge(&outcome), 0);
    expect_words(&outcome, "note other programs used 2.0 of the 8 cores meanwhile", true);
    outcome.others = 0.05;
    expect_words(&outcome, "other programs", false);
}

TEST(what_did_not_run_is_not_recommended)
{
    struct tune_outcome outcome = three(10, 15, 12);
    outcome.rounds = 0;
    outcome.enough_seconds = 40;
    for (uint32_t i = 0; i < 3; i++)
        outcome.candidates[i].rounds = 0;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_UNTRIED);
    expect_words(&outcome, "none run: too little time was left", true);
    expect_words(&outcome, "not run first: as configured input wait", true);
    expect_words(&outcome, "reason there was no time to run what the model proposes, and nothing is recommended that "
                           "did not run: --tune=40 set nothing", true);
    expect_words(&outcome, "nan", false);
}

TEST(a_candidate_runs_with_its_keys)
{
    const struct candidate candidate = { .setting = { 1, 2, 3, 4, 5 }, .is_cached = true };
    struct assignments assignments;
    assignments_make(&assignments, &candidate, true);
    assert_int_equal(assignments.count, 6);
    assert_string_equal(assignments.own[0], "input.source=cached");
    assert_string_equal(assignments.own[1], "input.prefetch_depth=4");
    assert_string_equal(assignments.own[5], "devices.threads_per_tower=3");
    assignments_make(&assignments, &candidate, false);
    assert_int_equal(assignments.count, 5);
    assert_string_equal(assignments.own[4], "input.decode_threads=2");
}

TEST(shards_in_memory_are_a_candidate)
{
    struct tune_outcome outcome = three(10, 11, 15);
    outcome.candidates[2].is_cached = true;
    outcome.candidates[2].setting = outcome.candidates[0].setting;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_CACHED);
    expect_words(&outcome, "1 1 1 4 2c", true);
    expect_words(&outcome, "<: the best; c: with input.source = cached", true);
    expect_words(&outcome, "the shards have room in memory: 50.0 % more images/s once they are read set [input] "
                           "source = cached", true);
    outcome = three(10, 15, 10);
    outcome.candidates[2].is_cached = true;
    assert_int_equal(outcome_judge(&outcome), 0);
    expect_words(&outcome, "[input] source", false);
}

TEST(what_changes_is_told)
{
    struct tune_outcome outcome = three(10, 15, 12);
    outcome.candidates[1].setting.ring = 12;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_BOTH);
    expect_words(&outcome, "reason other numbers of threads and another depth: 50.0 % more images/s", true);
}

TEST(queues_drain_as_they_are_recommended)
{
    struct tune_outcome outcome = three(3, 3, 4);
    outcome.model.decode = (struct feed_times)TIMES(slow);
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.best, 2);
    assert_float_equal(outcome.drain_steps, 10 / (1 - 1 / 2.4), 0.1);   /* 8 and 2 batches */
}

TEST(towers_that_do_not_wait_are_fed)
{
    struct tune_outcome outcome = three(10, 10, 10);
    for (uint32_t i = 0; i < 3; i++)
        outcome.candidates[0].waits[i] = 0.001;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_FED);
    assert_true(isinf(outcome.drain_steps));
    outcome.candidates[0].waits[0] = outcome.candidates[0].waits[1] = 0.1;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_UNEVEN);
    outcome = three(8, 8, 8);
    outcome.model.steps_on_cores = true;        /* slower than the towers alone, without waiting */
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_SHARED);
    outcome.model.steps_on_cores = false;       /* a GPU that was slow for a while: no deficit */
    for (uint32_t i = 0; i < 3; i++)
        outcome.candidates[0].waits[i] = 0.001;
    assert_int_equal(outcome_judge(&outcome), 0);
    assert_int_equal(outcome.kind, TUNE_FED);
}

TESTS_MAIN(NULL, NULL)
