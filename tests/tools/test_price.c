/* Tests of the price of a machine, as people write it. */
#include <errno.h>
#include <math.h>

#include "tests/helpers/test.h"
#include "tools/lib/config/price.h"

TEST(an_amount_and_a_currency_are_a_price)
{
    static const struct { const char *text; double amount; const char *currency; } rows[] = {
        { "3.06 EUR", 3.06, "EUR" },        { "3.06EUR", 3.06, "EUR" },       { "$3.06", 3.06, "$" },
        { "US$ 12", 12, "US$" },            { "EUR 3", 3, "EUR" },            { "0.5 \xe2\x82\xac", 0.5, "\xe2\x82\xac" },
        { "\xe2\x82\xac" "0.50", 0.5, "\xe2\x82\xac" },                        { "3E", 3, "E" },
        { "2 credits", 2, "credits" },      { "1000000000 \xc2\xa5", 1e9, "\xc2\xa5" },
        { "7 \xd1\x80\xd1\x83\xd0\xb1", 7, "\xd1\x80\xd1\x83\xd0\xb1" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct price price;
        assert_int_equal(price_read(rows[i].text, &price), 0);
        assert_true(price.amount == rows[i].amount);
        assert_string_equal(price.currency, rows[i].currency);
    }
}

TEST(nothing_is_no_price)
{
    struct price price;
    assert_int_equal(price_read("", &price), 0);
    assert_true(price.amount == 0);
}

TEST(what_is_no_price_is_refused)
{
    static const char *const rows[] = {
        "3.06", "EUR", " 3.06 EUR", "3.06  EUR", "3.06 EUR ", "3,06 EUR", "3. EUR", ".5 EUR", "-3 EUR", "+3 EUR", "0 EUR",
        "0.00 EUR", "1000000001 EUR", "3.06 EUR/h", "3.06 EUR an hour", "3 EUR 4", "3 EUR4", "$3 EUR", "$ $3", "1e3 EUR",
        "nan EUR", "inf EUR", "3 E\tR", "3 \"E\"", "3 ninechars", ("3\xc2\xa0" "EUR"), "3 \xff", "3 \xe2\x80\xae", "3 %",
    };
    struct price price;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (price_read(rows[i], &price) != -EINVAL)
            fail_msg("'%s' is taken", rows[i]);
}

TEST(an_amount_has_the_digits_that_matter)
{
    assert_string_equal(price_text(0.0104, "EUR").text, "0.0104 EUR");
    assert_string_equal(price_text(12.345, "$").text, "12.35 $");
    assert_string_equal(price_text(NAN, "$").text, "-");
}

TESTS_MAIN(NULL, NULL)
