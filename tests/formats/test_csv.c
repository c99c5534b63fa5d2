/* Tests of walking tables of text: quotes, ends of lines, separators. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/csv.h"
#include "tests/helpers/test.h"

/* All values of a table, "|" between fields and "\n" behind rows, and how the walk ended. */
static int read_all(const char *text, size_t bytes, char *out, struct csv *csv, const char **problem_out)
{
    struct csv_field field;
    char *own = malloc(bytes ? bytes : 1);
    int rc;

    assert_non_null(own);
    memcpy(own, text, bytes);
    csv_begin(csv, own, bytes);
    while ((rc = csv_next(csv, &field, problem_out)) == 0) {
        out += csv_value(&field, out);
        *out++ = field.ends_row ? '\n' : '|';
    }
    *out = '\0';
    free(own);
    return rc;
}

static void expect_rows(const char *text, const char *wanted)
{
    char found[256];
    struct csv csv;
    const char *problem;

    assert_int_equal(read_all(text, strlen(text), found, &csv, &problem), -ENODATA);
    assert_string_equal(found, wanted);
}

static void expect_problem(const char *text, size_t bytes, uint64_t line, const char *words)
{
    char found[256];
    struct csv csv;
    const char *problem = "";

    assert_int_equal(read_all(text, bytes, found, &csv, &problem), -EBADMSG);
    assert_non_null(strstr(problem, words));
    assert_int_equal(csv.line, line);
}

/* What is in memory behind it is not part of it. */
TEST(a_table_ends_with_its_last_byte)
{
    static const char *const behind[] = { "\"", "\"\"", "\n", ",", "x" };
    static const char *const tables[] = { "a,\"b\"", "a,b", "a,\"\"", "a,b\r" };
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        for (size_t j = 0; j < sizeof(behind) / sizeof(*behind); j++) {
            char text[32], value[8];
            struct csv csv;
            struct csv_field field;
            const char *problem;
            snprintf(text, sizeof(text), "%s%s", tables[i], behind[j]);
            csv_begin(&csv, text, strlen(tables[i]));
            assert_int_equal(csv_next(&csv, &field, &problem), 0);
            assert_false(field.ends_row);
            assert_int_equal(csv_next(&csv, &field, &problem), 0);
            assert_true(field.ends_row);
            assert_int_equal(csv_value(&field, value), i == 2 ? 0 : i == 3 ? 2 : 1);
            assert_int_equal(csv_next(&csv, &field, &problem), -ENODATA);
        }
}

TEST(reads_rows_whatever_ends_their_lines)
{
    expect_rows("a,b\nc,d\n", "a|b\nc|d\n");
    expect_rows("a,b\r\nc,d", "a|b\nc|d\n");
    expect_rows("\n\r\na,b\n\n\r\nc\n\n", "a|b\nc\n");
    expect_rows("a\rb,c\n", "a\rb|c\n");
    expect_rows("", "");
    expect_rows("\n\n", "");
    expect_rows("\xef\xbb\xbf" "a,b\n", "a|b\n");
}

TEST(keeps_empty_fields)
{
    expect_rows(",\n", "|\n");
    expect_rows("a,,b,\n", "a||b|\n");
    expect_rows("a,", "a|\n");
    expect_rows("\"\"\n", "\n");
    expect_rows("\"\",\"\"", "|\n");
}

TEST(undoes_quotes)
{
    expect_rows("\"a,b\",\"c\"\"d\"\n", "a,b|c\"d\n");
    expect_rows("\"two\nlines\",x\r\n", "two\nlines|x\n");
    expect_rows("\"\"\"\"\n", "\"\n");
    expect_rows("5\" disc,b\"\"c\n", "5\" disc|b\"\"c\n");
}

TEST(finds_the_separator_in_the_first_line)
{
    expect_rows("a;b;1,5\nc,d;e\n", "a|b|1,5\nc,d|e\n");
    expect_rows("a\tb\n", "a|b\n");
    expect_rows("\"x;y;z\",b\n", "x;y;z|b\n");
    expect_rows("alone\na,b\n", "alone\na|b\n");
}

TEST(skips_comments_above_a_table)
{
    expect_rows("# by a program\na,b\n", "a|b\n");
    expect_rows("\xef\xbb\xbf# by a \"program\r\n# c, d, e\r\n#\r\na,b\r\n", "a|b\n");
    expect_rows("# by a, program, 2\na;b\n", "a|b\n");
    expect_rows("# a,b\nc,d\n", "# a|b\nc|d\n");
    expect_rows("#1,b\n#2,d\n", "#1|b\n#2|d\n");
    expect_rows("#\n", "#\n");
}

TEST(says_where_a_table_is_wrong)
{
    expect_problem("# x\na,b\n\nc,\"d\n", 14, 4, "not closed");
    expect_problem("a,b\n\nc,\"d\n", 10, 3, "not closed");
    expect_problem("\"a\nb\",\"c\"d\n", 11, 2, "after a closing quote");
    expect_problem("a\nb\0c\n", 6, 2, "zero byte");
    expect_problem("\"", 1, 1, "not closed");
}

TESTS_MAIN(NULL, NULL)
