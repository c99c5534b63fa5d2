/* Tests of what evaluations count: the order of classes by logits, top-k, and the confusion matrix, against plain
 * loops over random logits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/predict/confusion.h"
#include "tools/predict/evaluation_result.h"

enum { CLASSES = 7, SAMPLES = 500 };

/* A few values, so that many are equal. */
static void draw(float logits[CLASSES])
{
    for (int c = 0; c < CLASSES; c++)
        logits[c] = (float)(rand() % 5) / 2 - 1;
}

static uint32_t place_of(const float logits[CLASSES], uint32_t class)
{
    uint32_t place = 0;
    for (uint32_t c = 0; c < CLASSES; c++)
        if (logits[c] > logits[class] || (logits[c] == logits[class] && c < class))
            place++;
    return place;
}

TEST(the_first_classes_are_those_of_a_sort)
{
    srand(1);
    for (int sample = 0; sample < SAMPLES; sample++) {
        float logits[CLASSES];
        struct ranked top[CLASSES];
        draw(logits);
        for (uint32_t count = 1; count <= CLASSES; count++) {
            double sum = 0;
            ranking_top(logits, CLASSES, count, top);
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(place_of(logits, top[i].class), i);
                assert_int_equal(ranking_position(logits, CLASSES, top[i].class), i);
                sum += top[i].probability;
            }
            assert_true(count < CLASSES ? sum < 1 : fabs(sum - 1) < 1e-12);
        }
        assert_int_equal(ranking_best(logits, CLASSES), top[0].class);
    }
}

TEST(probabilities_are_the_softmax)
{
    const float logits[3] = { 1000.0f, 1000.0f + logf(3.0f), -1000.0f };
    struct ranked top[3];
    ranking_top(logits, 3, 3, top);
    assert_int_equal(top[0].class, 1);
    assert_true(fabs(top[0].probability - 0.75) < 1e-4);
    assert_true(fabs(top[1].probability - 0.25) < 1e-4);
    assert_true(top[2].probability == 0);
}

TEST(cells_are_what_a_matrix_counts)
{
    uint64_t matrix[CLASSES][CLASSES] = { 0 }, among_five = 0, correct = 0;
    struct confusion confusion;
    srand(2);
    assert_int_equal(confusion_init(&confusion, CLASSES, SAMPLES), 0);
    for (int sample = 0; sample < SAMPLES; sample++) {
        float logits[CLASSES];
        draw(logits);
        const uint32_t label = (uint32_t)rand() % (CLASSES - 1), best = ranking_best(logits, CLASSES);
        matrix[label][best]++;
        correct += label == best;
        among_five += place_of(logits, label) < 5;
        confusion_add(&confusion, logits, label);
    }
    confusion_finish(&confusion);
    assert_int_equal(confusion.samples, SAMPLES);
    assert_int_equal(confusion.correct, correct);
    assert_int_equal(confusion.among_five, among_five);
    for (uint32_t label = 0; label < CLASSES; label++) {
        const struct class_score score = confusion_class(&confusion, label);
        uint64_t samples = 0;
        for (uint32_t c = 0; c < CLASSES; c++)
            samples += matrix[label][c];
        assert_int_equal(confusion.counts[label].samples, samples);
        assert_int_equal(confusion.counts[label].correct, matrix[label][label]);
        uint64_t predicted = 0;
        for (uint32_t c = 0; c < CLASSES; c++)
            predicted += matrix[c][label];
        assert_int_equal(confusion.counts[label].predicted, predicted);
        for (size_t i = 0; i < score.cell_count; i++) {
            assert_int_equal(score.cells[i].samples, matrix[label][score.cells[i].predicted]);
            if (score.cells[i].predicted != label)
                assert_true(score.cells[i].samples <= score.mostly->samples);
        }
    }
    assert_int_equal(confusion_class(&confusion, CLASSES - 1).cell_count, 0);
    confusion_release(&confusion);
}

/* ---- measures: the numbers are those of scikit-learn 1.x for the same matrix (zero_division = 0) ---- */

static void fill_measured(struct confusion *confusion)
{
    /* Class 3 is never predicted, class 4 is predicted without samples, class 5 has neither. */
    static const uint32_t matrix[6][6] = { { 50, 3, 0, 0, 2, 0 }, { 4, 7, 1 }, { 9, 0, 1 }, { 3, 2 } };
    assert_int_equal(confusion_init(confusion, 6, 82), 0);
    for (uint32_t label = 0; label < 6; label++)
        for (uint32_t best = 0; best < 6; best++)
            for (uint32_t i = 0; i < matrix[label][best]; i++) {
                float logits[6] = { 0 };
                logits[best] = 1;
                confusion_add(confusion, logits, label);
            }
    confusion_finish(confusion);
}

static void expect_measures(const struct class_measures *measures, double precision, double recall, double f1)
{
    assert_true(fabs(measures->precision - precision) < 5e-9);
    assert_true(fabs(measures->recall - recall) < 5e-9);
    assert_true(fabs(measures->f1 - f1) < 5e-9);
}

TEST(measures_are_those_of_scikit_learn)
{
    static const double wanted[6][3] = { { 0.75757576, 0.90909091, 0.82644628 }, { 0.58333333, 0.58333333, 0.58333333 },
                                         { 0.5, 0.1, 0.16666667 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } };
    struct confusion confusion;
    fill_measured(&confusion);
    for (uint32_t c = 0; c < 6; c++) {
        const struct class_measures measures = class_measures_of(&confusion.counts[c]);
        expect_measures(&measures, wanted[c][0], wanted[c][1], wanted[c][2]);
    }
    const struct mean_measures means = mean_measures_of(confusion.counts, 6);
    expect_measures(&means.macro, 0.36818181818181817, 0.3184848484848485, 0.31528925619834713);
    expect_measures(&means.weighted, 0.6544715447154471, 0.7073170731707317, 0.6600147819660014);
    assert_true(fabs(means.balanced_accuracy - 0.39810606060606063) < 1e-12);
    assert_int_equal(means.largest, 0);
    assert_true(fabs(means.largest_share - 55.0 / 82) < 1e-12);
    confusion_release(&confusion);
}

TEST(measures_of_nothing_are_0)
{
    const struct class_counts counts[2] = { { 0 }, { 0 } };
    const struct mean_measures means = mean_measures_of(counts, 2);
    expect_measures(&means.macro, 0, 0, 0);
    expect_measures(&means.weighted, 0, 0, 0);
    assert_true(means.balanced_accuracy == 0 && means.largest_share == 0);
}

/* Accuracy of 58 / 82 is above the share of class 0, and with three more mistakes it is below. */
TEST(a_result_no_better_than_the_largest_class_is_reported)
{
    struct confusion confusion;
    fill_measured(&confusion);
    for (uint32_t wrong = 0; wrong < 2; wrong++) {
        char *text;
        size_t bytes;
        FILE *const out = open_memstream(&text, &bytes);
        assert_non_null(out);
        const struct evaluation_result result = { .model = "m", .weights = "w", .confusion = &confusion, .seconds = 1 };
        confusion.correct -= 3 * wrong;
        evaluation_print(&result, out);
        fclose(out);
        assert_non_null(strstr(text, "balanced accuracy 39.81 %, macro F1 0.3153"));
        assert_int_equal(strstr(text, "always answering 0, the class with most samples") != NULL,
                         wrong);
        free(text);
    }
    confusion_release(&confusion);
}

/* So many classes as make the matrix too wide, and long names of them. */
static char *report_of(uint32_t classes, void (*write)(const struct evaluation_result *result, FILE *out))
{
    const char **const names = calloc(classes, sizeof(*names));
    float *const logits = calloc(classes, sizeof(*logits));
    struct confusion confusion;
    char *text;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    assert_true(names != NULL && logits != NULL && out != NULL);
    assert_int_equal(confusion_init(&confusion, classes, 2 * classes), 0);
    for (uint32_t c = 0; c < classes; c++) {
        names[c] = c % 3 == 0 ? "" : "a class with a \"name\" that is\nrather long, longer than a column";
        for (uint32_t i = 0; i < 2; i++) {
            logits[(c + i) % classes] = 1;
            confusion_add(&confusion, logits, c);
            logits[(c + i) % classes] = 0;
        }
    }
    confusion_finish(&confusion);
    const struct evaluation_result result = { .model = "m", .weights = "w", .confusion = &confusion, .names = names,
                                              .loss = 0.5, .seconds = 1 };
    write(&result, out);
    fclose(out);
    confusion_release(&confusion);
    free(logits);
    free(names);
    return text;
}

TEST(reports_fit_a_terminal)
{
    static const uint32_t counts[] = { 1, 2, 10, 30, 100, 101, 1000 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        char *const text = report_of(counts[i], evaluation_print), *rest = NULL;
        for (const char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            assert_true(strlen(line) <= 80);
        free(text);
    }
}

TEST(a_csv_has_a_line_for_each_class_and_doubled_quotes)
{
    char *const text = report_of(3, evaluation_write_csv);
    static const char name[] = "\"a class with a \"\"name\"\" that is\\x0arather long, longer than a column\"";
    char wanted[512];
    snprintf(wanted, sizeof(wanted), "class,0,%s,%s\n0,1,1,0\n%s,0,1,1\n%s,1,0,1\n", name, name, name, name);
    assert_string_equal(text, wanted);
    free(text);
}

static void write_json(const struct evaluation_result *result, FILE *out)
{
    assert_int_equal(evaluation_write_json(result, out), 0);
}

/* Among five classes or fewer, every answer is one of the first five. */
/* A line is at least a digit and a comma for each class. */
TEST(the_size_of_a_csv_is_that_of_the_classes_with_samples)
{
    assert_int_equal(evaluation_csv_bytes(10, 1000), 2 * 10 * 11);
    assert_int_equal(evaluation_csv_bytes(100000, 5), 2 * 100000 * 6);
    assert_true(evaluation_csv_bytes(100000, 100000) == UINT64_C(2) * 100000 * 100001);
}

TEST(top5_is_given_for_more_than_five_classes_only)
{
    for (uint32_t classes = 1; classes <= 7; classes++) {
        char *const text = report_of(classes, write_json);
        assert_non_null(strstr(text, "\"top1\""));
        assert_int_equal(strstr(text, "\"top5\"") != NULL, classes > 5);
        free(text);
    }
}

TEST(of_classes_that_are_predicted_as_often_the_first_counts)
{
    static const uint32_t predicted[] = { 3, 1, 2, 0, 0, 3, 1 };
    struct confusion confusion;
    assert_int_equal(confusion_init(&confusion, 4, sizeof(predicted) / sizeof(*predicted)), 0);
    for (size_t i = 0; i < sizeof(predicted) / sizeof(*predicted); i++) {
        float logits[4] = { 0 };
        logits[predicted[i]] = 1;
        confusion_add(&confusion, logits, 0);
    }
    confusion_finish(&confusion);
    const struct class_score score = confusion_class(&confusion, 0);
    assert_int_equal(confusion.counts[0].correct, 2);
    assert_true(score.mostly->predicted == 1 && score.mostly->samples == 2);
    confusion_release(&confusion);
}

TESTS_MAIN(NULL, NULL)
