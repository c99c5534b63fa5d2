/* Tests of what trials come to, and of how it is told. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/compare/compare_report.h"
#include "tools/compare/comparison.h"

enum { VARIANTS = 3, ROUNDS = 3 };

static struct axes axes;
static struct settings settings;
static struct problems problems;
static struct trial_result results[VARIANTS * ROUNDS];
static struct comparison comparison;

/* Towers 1, 2, 2 at speeds that drift: the second variant is always twice as fast, and the third thrice. */
static int set_up(void **state)
{
    static const double drift[ROUNDS] = { 100, 200, 120 };
    (void)state;
    axes = (struct axes){ 0 };
    problems_init(&problems);
    int rc = settings_init(&settings);
    rc = rc == 0 ? axes_add(&axes, "towers=1,2,two", &settings, &problems) : rc;
    for (int v = 0; v < VARIANTS; v++)
        for (int r = 0; r < ROUNDS; r++)
            results[r * VARIANTS + v] = (struct trial_result){
                .device = "cpu", .towers = v == 0 ? 1 : 2, .threads_per_tower = 2, .batch = 8,
                .values.run.steps = 10, .values.images = 80, .values.run.warmup_steps = 1,
                .values.images_per_second = drift[r] * (v + 1), .values.run.speed = { 99, 2, 3 },
                .values.run.step = { 1.5, 2, 2.5 },
                .values.share = { .input_wait = 0.25, .exposed_copy = 0.01, .forward = 0.3, .backward = 0.38,
                               .exposed_reduction = 0.02, .update = 0.04 },
                .values.loss = 0.5 + v, .values.run.validation.accuracy = 0.75,
                .values.run.validation.loss = NAN, .values.run.peak_rss_bytes = 1000,
                .values.run.cost = { .money = NAN, .joules = NAN },
            };
    comparison = (struct comparison){ .axes = &axes, .config_path = "run.conf", .steps = 10, .variants = VARIANTS,
                                      .rounds = ROUNDS, .results = results };
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    axes_release(&axes);
    problems_release(&problems);
    settings_release(&settings);
    return 0;
}

static void assert_spread(struct spread spread, double median, double least, double most)
{
    assert_true(spread.median == median && spread.least == least && spread.most == most);
}

TEST_WITH(a_spread_is_the_median_and_the_range, set_up, tear_down)
{
    static const double values[] = { 5, 1, NAN, 4, 2 }, none[] = { NAN, INFINITY };
    assert_spread(spread_of(values, 1), 5, 5, 5);
    assert_spread(spread_of(values, 2), 3, 1, 5);
    assert_spread(spread_of(values, 3), 3, 1, 5);
    assert_spread(spread_of(values, 4), 4, 1, 5);
    assert_spread(spread_of(values, 5), 3, 1, 5);
    assert_true(isnan(spread_of(none, 2).median) && isnan(spread_of(none, 0).most));
}

TEST_WITH(a_drift_of_the_machine_changes_no_speed_up, set_up, tear_down)
{
    assert_spread(comparison_spread(&comparison, 1, "images_per_second"), 240, 200, 400);
    for (uint32_t v = 0; v < VARIANTS; v++)
        assert_spread(comparison_spread(&comparison, v, "speed_up"), v + 1, v + 1, v + 1);
}

TEST_WITH(efficiency_is_of_other_numbers_of_towers, set_up, tear_down)
{
    assert_true(isnan(comparison_efficiency(&comparison, 0)));
    assert_true(comparison_efficiency(&comparison, 1) == 1);
    assert_true(comparison_efficiency(&comparison, 2) == 1.5);
}

TEST_WITH(losses_are_compared_after_equal_samples_only, set_up, tear_down)
{
    assert_true(comparison_has_equal_samples(&comparison));
    assert_true(comparison_spread(&comparison, 2, "loss").median == 2.5);
    assert_true(comparison_spread(&comparison, 2, "validation_accuracy").median == 0.75);
    results[8].values.images = 81;
    assert_true(isnan(comparison_spread(&comparison, 0, "loss").median));
    assert_true(isnan(comparison_spread(&comparison, 0, "validation_accuracy").median));
    assert_true(comparison_spread(&comparison, 2, "step_p99_ms").median == 2.5);
    results[8].values.images = 80;
    results[0].is_synthetic = results[VARIANTS].is_synthetic = results[2 * VARIANTS].is_synthetic = true;
    assert_true(isnan(comparison_spread(&comparison, 0, "loss").median));
    assert_true(comparison_spread(&comparison, 1, "loss").median == 1.5);
    results[0].is_synthetic = results[VARIANTS].is_synthetic = results[2 * VARIANTS].is_synthetic = false;
    comparison.steps = 0;               /* equal by chance */
    comparison.seconds = 1;
    assert_true(isnan(comparison_spread(&comparison, 0, "loss").median));
}

/* What a report prints, to be freed. */
static char *printed(void (*report)(const struct comparison *comparison, FILE *out))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    assert_non_null(out);
    report(&comparison, out);
    fclose(out);
    return text;
}

static void json_report(const struct comparison *of, FILE *out)
{
    assert_int_equal(compare_report_json(of, out), 0);
}

static void assert_line(const char *text, const char *begins, const char *ends)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t bytes = strcspn(line, "\n");
        if (strncmp(line, begins, strlen(begins)) == 0 && bytes >= strlen(ends) &&
            strncmp(line + bytes - strlen(ends), ends, strlen(ends)) == 0)
            return;
    }
    fail_msg("no line \"%s...%s\" in\n%s", begins, ends, text);
}

static void assert_narrow(const char *text)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
        assert_true(strcspn(line, "\n") <= 80);
}

TEST_WITH(the_table_shows_all_in_80_columns, set_up, tear_down)
{
    char *text = printed(compare_report_table);
    assert_narrow(text);
    assert_line(text, "towers", "images/s     +/-  speed-up  efficiency  accuracy    loss");
    assert_line(text, "1  ", "120.0  41.7 %     1.000           -   75.00 %  0.5000");
    assert_line(text, "two ", "360.0  41.7 %     3.000     150.0 %   75.00 %  2.5000");
    assert_line(text, "towers", "median ms    p90 ms    p99 ms  uncertainty     jitter");
    assert_line(text, "2  ", "1.50      2.00      2.50         2.00       3.00");
    assert_line(text, "threads   2 per tower in every variant", "");
    assert_line(text, "images/s: all images over wall time, after 1 warm-up step", "");
    assert_line(text, "towers", "input wait    copy  forward  backward  reduction  update");
    assert_line(text, "2  ", "25.0 %   1.0 %   30.0 %    38.0 %      2.0 %   4.0 %");
    free(text);
    for (size_t r = 0; r < ROUNDS; r++)
        results[r * VARIANTS + 2].values.share.exposed_exchange = 0.125;
    text = printed(compare_report_table);
    assert_narrow(text);
    assert_line(text, "towers", "input wait    copy  forward  backward  reduction  exchange  update");
    assert_line(text, "two ", "25.0 %   1.0 %   30.0 %    38.0 %      2.0 %    12.5 %   4.0 %");
    free(text);
    results[2].threads_per_tower = 1;
    results[VARIANTS].values.run.cores.others = 0.35;
    results[VARIANTS].values.run.cores.stolen = 0.05;
    text = printed(compare_report_table);
    assert_line(text, "threads   per tower, in the order of the rows: 2, 2, 1", "");
    assert_line(text, "note      other programs used up to 40 % of the cores' time (in round 2)", "");
    free(text);
    for (size_t i = 0; i < VARIANTS * ROUNDS; i++)
        results[i].values.images_per_second = results[i].values.loss = NAN;
    comparison.rounds = 1;
    comparison.variants = 2;
    text = printed(compare_report_table);
    assert_line(text, "2  ", "-       -         -           -   75.00 %       -");
    free(text);
}

/* Names of columns and their numbers have a blank between them, whatever they are. */
TEST_WITH(columns_never_collide, set_up, tear_down)
{
    for (int exponent = -12; exponent <= 12; exponent++) {
        for (size_t i = 0; i < VARIANTS * ROUNDS; i++) {
            const double size = 9.87654321 * pow(10, exponent) * (1 + (double)i);
            struct trial_result *const result = &results[i];
            result->values.images_per_second = size;
            result->values.run.speed = (struct speeds){ size, size, size };
            result->values.run.step = (struct step_percentiles){ size, size, size };
            result->values.loss = size;
        }
        char *const text = printed(compare_report_table);
        assert_narrow(text);
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
            int words = 0;
            for (const char *at = line; *at != '\n'; at++)
                words += *at != ' ' && *at != '%' && (at == line || at[-1] == ' ');
            if (strncmp(line, "two ", 4) == 0)
                assert_true(words == 7 || words == 6);
        }
        free(text);
    }
}

TEST_WITH(long_values_stand_above_their_numbers, set_up, tear_down)
{
    axes_release(&axes);
    assert_int_equal(axes_add(&axes, "data.train=a file that has a long name,\xc3\xa4\x1b,", &settings, &problems), 0);
    char *const text = printed(compare_report_table);
    assert_narrow(text);
    assert_line(text, "variant ", "loss");
    assert_line(text, "train=a file that has a long name", "name");
    assert_line(text, "train=\xc3\xa4\\x1b", "b");
    assert_line(text, "                       ", "0.5000");
    free(text);
}

TEST_WITH(csv_has_a_row_for_each_variant, set_up, tear_down)
{
    axes_release(&axes);
    assert_int_equal(axes_add(&axes, "list=0\\,1,\"a\",b", &settings, &problems), 0);
    char *const text = printed(compare_report_csv);
    assert_line(text, "devices.list,towers,threads_per_tower,batch,rounds,steps,images,efficiency,images_per_second,",
                ",validation_loss,validation_balanced_accuracy,validation_macro_precision,validation_macro_recall,"
                "validation_macro_f1,validation_weighted_precision,validation_weighted_recall,validation_weighted_f1");
    assert_line(text, "\"0,1\",1,2,8,3,10,80,,120,100,200,1,1,1,99,2,3,1.5,2,2.5,0.25,", ",0.5,0.75,,0,0,0,0,0,0,0");
    assert_line(text, "\"\"\"a\"\"\",2,2,8,3,10,80,1,240,200,400,2,2,2,", ",1.5,0.75,,0,0,0,0,0,0,0");
    free(text);
}

TEST_WITH(json_has_every_round, set_up, tear_down)
{
    char *const text = printed(json_report);
    json_t *const object = json_loads(text, 0, NULL);
    assert_non_null(object);
    assert_true(json_is_true(json_object_get(object, "equal_samples")));
    const json_t *const variant = json_array_get(json_object_get(object, "variants"), 2);
    const json_t *const settings_of = json_object_get(variant, "settings");
    assert_string_equal(json_string_value(json_object_get(settings_of, "devices.towers")), "two");
    const json_t *const speed = json_object_get(variant, "images_per_second");
    assert_true(json_number_value(json_object_get(speed, "median")) == 360);
    assert_int_equal(json_array_size(json_object_get(speed, "rounds")), ROUNDS);
    assert_true(json_number_value(json_array_get(json_object_get(speed, "rounds"), 1)) == 600);
    assert_true(json_is_null(json_object_get(json_object_get(variant, "validation_loss"), "median")));
    assert_true(json_number_value(json_object_get(variant, "efficiency")) == 1.5);
    json_decref(object);
    free(text);
}

TESTS_MAIN(NULL, NULL)
