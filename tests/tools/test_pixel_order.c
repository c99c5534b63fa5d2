/* Tests of the order of pixels that have a column each: found by the numbers in their names, wherever these stand. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/convert/pixel_order.h"

enum { SIDE = 5, CHANNELS = 3, COUNT = SIDE * SIDE * CHANNELS };

/* Names of the numbers in this order: 0 is the row, 1 the column, 2 the channel. */
static void check(const unsigned order[3], bool is_reversed)
{
    static char texts[COUNT][32];
    static struct csv_text names[COUNT];
    uint32_t places[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        const unsigned at = is_reversed ? COUNT - 1 - i : i;
        const unsigned numbers[3] = { at / CHANNELS / SIDE, at / CHANNELS % SIDE, at % CHANNELS };
        const int bytes = snprintf(texts[i], sizeof(texts[i]), "p%u_%u_%u", numbers[order[0]], numbers[order[1]],
                                   numbers[order[2]]);
        names[i] = (struct csv_text){ texts[i], (size_t)bytes };
    }
    assert_int_equal(pixel_order_find(names, COUNT, places), 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(places[i], is_reversed ? COUNT - 1 - i : i);
}

TEST(the_number_of_three_values_is_the_channel_wherever_it_stands)
{
    static const unsigned orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 2, 0, 1 } };
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        check(orders[i], false);
        check(orders[i], true);
    }
}

TEST(numbers_that_repeat_or_leave_gaps_are_refused)
{
    static const struct { const char *names[4]; int rc; } rows[] = {
        { { "p0", "p1", "p2", "p3" }, 0 }, { { "p3", "p1", "p2", "p0" }, 0 }, { { "p7", "p8", "p9", "p10" }, 0 },
        { { "p0", "p1", "p2", "p4" }, -EINVAL }, { { "p0", "p1", "p2", "p2" }, -EINVAL }, { { "p", "p", "p", "p" }, 0 },
        { { "p0_0", "p0_1", "p1_0", "p1_1" }, 0 }, { { "p0_0", "p0_1", "p1_0", "p1_2" }, -EINVAL },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct csv_text names[4];
        uint32_t places[4];
        for (size_t k = 0; k < 4; k++)
            names[k] = (struct csv_text){ rows[i].names[k], strlen(rows[i].names[k]) };
        if (pixel_order_find(names, 4, places) != rows[i].rc)
            fail_msg("row %zu", i);
    }
}

TESTS_MAIN(NULL, NULL)
