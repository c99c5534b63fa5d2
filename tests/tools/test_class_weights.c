/* Tests of class weights from labels and from files. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/label_table.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/class_weights.h"

enum { CLASSES = 4 };

/* sklearn.utils.class_weight.compute_class_weight('balanced') of these labels; class 3 has no record. */
TEST(auto_gives_all_classes_equal_sums)
{
    static const int32_t labels[] = { 0, 0, 0, 1, 0, 2, LABEL_UNKNOWN, 0, 1, 0 };
    float weights[CLASSES];
    assert_int_equal(class_weights_balance(labels, sizeof(labels) / sizeof(labels[0]), CLASSES, weights), 0);
    assert_true(weights[0] == 0.5f && weights[1] == 1.5f && weights[2] == 3 && weights[3] == 1);
    assert_int_equal(class_weights_balance(labels, 0, CLASSES, weights), 0);
    assert_true(weights[0] == 1 && weights[3] == 1);
}

/* Read a text with this list of names; "", or the first problem. */
static const char *problem_in(const char *list, const char *text, size_t bytes, float *weights)
{
    static char problem[512];
    struct class_names names;
    struct problems problems;
    char why[256];
    assert_int_equal(class_names_read(&names, list, strlen(list), why, sizeof(why)), 0);
    problems_init(&problems);
    const int rc = class_weights_read(weights, CLASSES, &names, text, bytes, "w.txt", &problems);
    assert_int_equal(rc, problems.count > 0 ? -EINVAL : 0);
    snprintf(problem, sizeof(problem), "%s", problems.count > 0 ? problems.lines[0] : "");
    problems_release(&problems);
    class_names_release(&names);
    return problem;
}

static const char *problem_with(const char *list, const char *text, float *weights)
{
    return problem_in(list, text, strlen(text), weights);
}

static const char *problem_of(const char *text, float *weights)
{
    return problem_with("healthy\nvery rare\nlame\nodd\n", text, weights);
}

/* The number 0 could be the first class, or a mistake for a name. */
TEST(where_names_are_numbers_numbers_are_names)
{
    static const char names[] = "0:7\n1:2\n2:1\n3:odd\n";
    float weights[CLASSES];
    assert_string_equal(problem_with(names, "1 5\n2 4\n7 3", weights), "");
    assert_true(weights[0] == 3 && weights[1] == 4 && weights[2] == 5 && weights[3] == 1);
    assert_string_equal(problem_with(names, "0 5", weights),
                        "w.txt:1: there is no class '0': classes have numbers as names here (such as '7'): write a name");
}

TEST(a_name_of_several_classes_is_refused)
{
    float weights[CLASSES];
    assert_string_equal(problem_with("cat\ncat\ndog\nowl\n", "cat 2", weights),
                        "w.txt:1: several classes are called 'cat': write the number of one of them");
    assert_string_equal(problem_with("cat\ncat\ndog\nowl\n", "0 2\n1 3", weights), "");
    assert_true(weights[0] == 2 && weights[1] == 3);
}

TEST(files_name_classes_by_name_or_number)
{
    float weights[CLASSES];
    assert_string_equal(problem_of("# rare classes\nvery rare\t 2.5\r\n\n  0 0.25\nlame 3", weights), "");
    assert_true(weights[0] == 0.25f && weights[1] == 2.5f && weights[2] == 3 && weights[3] == 1);
    assert_string_equal(problem_of("\xef\xbb\xbf" "0 2\nodd -0", weights), "");
    assert_true(weights[0] == 2 && weights[1] == 1 && weights[3] == 0 && !signbit(weights[3]));
}

/* What follows a NUL would be left out. The text has no terminating zero. */
TEST(a_file_is_read_to_its_end)
{
    static const char text[] = { '0', ' ', '2', '\n', '1', ' ', '\0', '3' };
    float weights[CLASSES];
    assert_string_equal(problem_in("a\nb\nc\nd\n", text, sizeof(text), weights),
                        "w.txt: line 2 contains a NUL byte: save the file as UTF-8");
    assert_string_equal(problem_in("a\nb\nc\nd\n", text, 3, weights), "");
    assert_true(weights[0] == 2 && weights[1] == 1);
}

TEST(wrong_lines_are_refused_with_what_would_fit)
{
    static const struct { const char *text, *problem; } wrong[] = {
        { "0 1\nhealty 2", "w.txt:2: there is no class 'healty': is it 'healthy'?" },
        { "9 2", "w.txt:1: there is no class '9': the classes are 0 to 3 and their names" },
        { "0 -1", "w.txt:1: '-1' is no weight" },
        { "0 nan", "w.txt:1: 'nan' is no weight" },
        { "0 inf", "w.txt:1: 'inf' is no weight" },
        { "0 1x", "w.txt:1: '1x' is no weight" },
        { "healthy", "w.txt:1: 'healthy' is no weight" },
        { "healthy 1\n0 2", "w.txt:2: class '0' has a weight in line 1 already" },
        { "0 1e-16", "w.txt:1: '1e-16' is no weight" },
        { "0 2e15", "w.txt:1: '2e15' is no weight" },
        { "", "w.txt: has no weights" },
        { "# nothing\n\n", "w.txt: has no weights" },
        { "0 0\n1 0\n2 0\n3 0", "w.txt: all weights are 0" },
    };
    float weights[CLASSES];
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_memory_equal(problem_of(wrong[i].text, weights), wrong[i].problem, strlen(wrong[i].problem));
}

TEST(only_the_quotients_of_weights_count)
{
    static const float read[][CLASSES] = { { 3000, 0.1f, 1, 0 }, { 1e-6f, 1e-9f, 0, 0 }, { 1, 1, 1, 1 }, { 0, 0, 0, 0.75f },
                                           { 1e15f, 1e-15f, 0, 1 } };
    for (size_t i = 0; i < sizeof(read) / sizeof(read[0]); i++) {
        float weights[CLASSES], most = 0;
        memcpy(weights, read[i], sizeof(weights));
        const int exponent = class_weights_scale(weights, CLASSES);
        for (uint32_t c = 0; c < CLASSES; c++) {
            assert_true(ldexpf(weights[c], exponent) == read[i][c]);
            most = weights[c] > most ? weights[c] : most;
        }
        assert_true(most >= 0.5f && most < 1);
    }
}

TESTS_MAIN(NULL, NULL)
