/* Tests of lists of CPUs: those of the kernel are read, and written as it writes them. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stage/cpus.h"
#include "tests/helpers/test.h"

TEST(lists_of_cpus_are_read_as_the_kernel_writes_them)
{
    cpu_set_t cpus;
    assert_true(cpu_list_parse("0-3,8,10-11\n", &cpus));
    assert_int_equal(CPU_COUNT(&cpus), 7);
    assert_true(CPU_ISSET(3, &cpus) && CPU_ISSET(8, &cpus) && CPU_ISSET(11, &cpus) && !CPU_ISSET(9, &cpus));
    assert_true(cpu_list_parse("5", &cpus));
    assert_int_equal(CPU_COUNT(&cpus), 1);
    static const char *const wrong[] = { "", "\n", "3-1", "1-", "-1", "1,", "1,,2", "1 2", "x", "1-2-3", "0-99999", "0-1024",
                                         "1024" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(cpu_list_parse(wrong[i], &cpus));
    assert_int_equal(CPU_COUNT(&cpus), 1);
}

TEST(what_is_written_reads_back)
{
    static const char *const lists[] = { "0", "0-3,8,10-11", "0-1023", "1,3,5-6,1022-1023" };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        cpu_set_t cpus;
        char text[64];
        assert_true(cpu_list_parse(lists[i], &cpus));
        cpu_list_write(&cpus, text, sizeof(text));
        assert_string_equal(text, lists[i]);
    }
    cpu_set_t none;
    char text[8] = "x";
    CPU_ZERO(&none);
    cpu_list_write(&none, text, sizeof(text));
    assert_string_equal(text, "");
}

TEST(a_list_that_is_too_long_ends_in_dots)
{
    cpu_set_t cpus;
    assert_true(cpu_list_parse("0,2,4,6,8,10,100-200", &cpus));
    for (size_t size = 4; size <= 24; size++) {
        char text[25];
        memset(text, 'x', sizeof(text));
        cpu_list_write(&cpus, text, size);
        assert_true(strlen(text) < size);
        assert_string_equal(text + strlen(text) - 3, size < 24 ? "..." : "200");
    }
}

TESTS_MAIN(NULL, NULL)
