/* Tests on cmocka that register themselves. A test program is one source file:
 *
 *     TEST(a_sentence_that_is_true) { assert_int_equal(1 + 1, 2); }
 *     TESTS_MAIN(NULL, NULL)
 *
 * TESTS_MAIN is the program's main: it runs all tests in the order of the file, between the two functions of the group
 * (NULL: none). Where main does more, it calls tests_run itself. TEST_WITH has functions to call before and after that one
 * test. In a test, `state` is what cmocka passes. */
#ifndef PIPETRAIN_TEST_H
#define PIPETRAIN_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TESTS_MAX = 128 };

static struct CMUnitTest tests_registered[TESTS_MAX];
static size_t tests_registered_count;

static inline void test_register(const char *name, CMUnitTestFunction test, CMFixtureFunction set_up,
                                 CMFixtureFunction tear_down)
{
    assert(tests_registered_count < TESTS_MAX);
    tests_registered[tests_registered_count++] =
        (struct CMUnitTest){ .name = name, .test_func = test, .setup_func = set_up, .teardown_func = tear_down };
}

/* Run all tests of this file, of which there has to be one. Returns how many failed, or cmocka's error of the group's
 * functions. */
static inline int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    assert(tests_registered_count > 0);
    return _cmocka_run_group_tests("tests", tests_registered, tests_registered_count, set_up, tear_down);
}

/* How thorough a test is. make check uses the smallest sizes that show each property; make check-long sets
 * PIPETRAIN_TEST_LONG=yes for all of them. */
static inline bool test_is_long(void)
{
    const char *const asked = getenv("PIPETRAIN_TEST_LONG");
    return asked != NULL && strcmp(asked, "yes") == 0;
}

/* For counts of calls, fewer of which are an improvement. */
#define assert_at_most(count, most) assert_in_range(count, 0, most)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Constructors of a file run in its order. */
#define TEST_WITH(name, set_up, tear_down)                                \
    static void name(void **state);                                       \
    __attribute__((constructor)) static void name##_is_registered(void)   \
    {                                                                     \
        test_register(#name, name, set_up, tear_down);                    \
    }                                                                     \
    static void name(void **state __attribute__((unused)))

#define TESTS_MAIN(set_up, tear_down)         \
    int main(void)                            \
    {                                         \
        return tests_run(set_up, tear_down);  \
    }

#endif
