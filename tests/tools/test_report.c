/* Tests of progress: how wide its line is, and when it is said. */
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "stage/log.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/progress_display.h"
#include "tools/lib/run/report.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/progress_line.h"

TEST(a_rate_has_decimals_where_it_is_small)
{
    static const struct { double rate; const char *text; } rows[] = {
        { 600810.4, "600,810" }, { 10, "10" }, { 9.87654, "9.88" }, { 5, "5.00" }, { 0.5, "0.500" },
        { 0.05234, "0.0523" },
        { 0, "0.0" }, { 4.7e17, "470,000,000,000,000,000" }, { 1e300, "1.0e+300" }, { NAN, "-" }, { INFINITY, "-" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(number_rate(rows[i].rate).text, rows[i].text);
}

TEST(a_short_run_has_ten_rows_an_epoch)
{
    static const struct { int64_t interval; uint64_t records, steps, expected; } rows[] = {
        { 0, 0, 0, 1 }, { 0, 70, 0, 1 }, { 0, 1280, 0, 12 }, { 0, 9990, 0, 99 }, { 0, 1000000, 0, 100 },
        { 0, 1000000, 40, 4 }, { 7, 1280, 0, 7 }, { 1000, 1280, 0, 1000 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct schedule schedule = { .records = { rows[i].records, 0 }, .batch = 10, .towers = 1, .epochs = 3,
                                           .steps = rows[i].steps };
        const struct settings settings = { .report.interval = rows[i].interval };
        assert_int_equal(report_interval_steps(&settings, &schedule), rows[i].expected);
    }
}

TEST(any_number_fits_its_column)
{
    assert_string_equal(number_cell(1234.56, 1, "", 9).text, "1234.6");
    assert_string_equal(number_cell(12345678.9, 1, "", 9).text, "12345679");
    assert_string_equal(number_cell(1.5e12, 1, " %", 9).text, "1.5e+12 %");
    assert_string_equal(number_cell(NAN, 1, " %", 9).text, "-");
    for (int columns = 8; columns < 20; columns++)
        for (int exponent = -99; exponent < 100; exponent++)
            for (int digits = 0; digits < 9; digits++)
                assert_in_range(strlen(number_cell(9.99 * pow(10, exponent), digits, " %", columns).text), 1, columns);
}

static struct progress_line line_of(uint64_t size)
{
    return (struct progress_line){ .epoch = (uint32_t)size, .epochs = (uint32_t)size, .step = size, .steps = size,
                                   .loss = (double)size, .accuracy = 1, .images_per_second = (double)size,
                                   .input_wait = 1, .epoch_left = (double)size, .run_left = 2.0 * (double)size };
}

/* Every line consists of whole parts: behind the last blank stands what may end one. */
static void assert_whole(const char *text)
{
    const char *const blank = strrchr(text, ' ');
    const char *const last = blank != NULL ? blank + 1 : text;
    assert_true(strcmp(last, "left") == 0 || strcmp(last, "img/s") == 0 ||
                strchr(last, '%') != NULL || strchr(last, '/') != NULL || strchr(last, '.') != NULL ||
                strchr(last, 'e') != NULL || strchr(last, ']') != NULL);
}

TEST(a_progress_line_of_any_numbers_fits_any_terminal_in_whole_parts)
{
    char text[PROGRESS_LINE_MAX + 1];
    for (uint64_t size = 1; size < UINT64_MAX / 10; size *= 10)
        for (unsigned columns = 1; columns < 300; columns++) {
            const struct progress_line line = line_of(size);
            progress_line_bar(&line, columns, &(struct progress_room){ .rest = 0 }, text);
            assert_true(strlen(text) <= columns && strlen(text) <= PROGRESS_LINE_MAX);
            if (columns >= 79)
                assert_whole(text);
            progress_line_write(&line, text);
            assert_true(strlen(text) <= PROGRESS_LINE_COLUMNS);
            assert_whole(text);
        }
}

static void expect_bar(const struct progress_line *line, unsigned columns, const char *expected)
{
    char text[PROGRESS_LINE_MAX + 1];
    progress_line_bar(line, columns, &(struct progress_room){ .rest = 0 }, text);
    assert_string_equal(text, expected);
}

/* Where the bar stands and how wide it is, (0, 0) for none. */
struct bar { unsigned from, columns; };

static struct bar bar_of(const char *text)
{
    const char *const from = strchr(text, '['), *const end = strchr(text, ']');
    return from != NULL ? (struct bar){ (unsigned)(from - text), (unsigned)(end - from) + 1 } : (struct bar){ 0, 0 };
}

/* An epoch in which numbers become longer and shorter. A bar may become narrower where they reach a length that they
 * had not before, and never wider but where words are left out for it; it stands where it stood. */
TEST(a_bar_keeps_its_place_and_does_not_grow)
{
    for (unsigned columns = 40; columns < 200; columns++) {
        struct progress_room room = { .rest = 0 };
        struct bar before = { 0, UINT_MAX };
        unsigned changes = 0, form = 0;
        for (uint64_t step = 1; step <= 1500; step++) {
            const struct progress_line line = {
                .epoch = 2, .epochs = 20, .step = step, .steps = 1500, .loss = 2.3 / (double)step,
                .accuracy = (double)(step % 100) / 100, .images_per_second = step % 3 == 0 ? 999 : 10020,
                .input_wait = (double)(step % 7) / 50, .has_feed = true, .batches = (uint32_t)step % 5, .depth = 4,
                .readers = 0.08, .decoders = (double)(step % 30) / 30, .epoch_left = (double)(1500 - step),
                .run_left = (double)(30000 - step) };
            char text[PROGRESS_LINE_MAX + 1];
            progress_line_bar(&line, columns, &room, text);
            const struct bar bar = bar_of(text);
            if (room.form == form) {
                assert_true(bar.columns <= before.columns);
                assert_true(bar.columns == 0 || before.from == 0 || bar.from == before.from);
            }
            form = room.form;
            changes += bar.columns != before.columns;
            before = bar;
        }
        assert_true(changes <= 6);
    }
}

TEST(a_bar_takes_the_room_there_is)
{
    struct progress_line line = { .epoch = 1, .epochs = 2, .step = 50, .steps = 157, .loss = 0.86031, .accuracy = 0.715,
                                  .images_per_second = 1604, .input_wait = 0.001, .epoch_left = 7, .run_left = 97.4 };
    expect_bar(&line, 79, "1/2 50/157  [=>    ] loss 0.8603 acc 71.5% 1,604 img/s wait 0.1% 0:07/1:37 left");
    expect_bar(&line, 120, "epoch 1/2 step 50/157   [=========>                    ]  loss 0.8603  acc 71.5%  "
                           "1,604 img/s  wait 0.1%  0:07/1:37 left");
    expect_bar(&line, 60, "1/2 50/157 loss 0.8603 acc 71.5% 1,604 img/s 0:07/1:37 left");
    expect_bar(&line, 33, "1/2 50/157 loss 0.8603 acc 71.5%");
    line.has_feed = true;
    line.batches = 3;
    line.depth = 4;
    line.readers = 0.02;
    line.decoders = 0.874;
    expect_bar(&line, 79, "1/2 50/157  [=>    ] loss 0.8603 acc 71.5% 1,604 img/s wait 0.1% 0:07/1:37 left");
    expect_bar(&line, 136, "epoch 1/2 step 50/157   [=====>          ]  loss 0.8603  acc 71.5%  1,604 img/s  "
                           "wait 0.1%  ready 3/4 read 2% decode 87%  0:07/1:37 left");
    line.evaluates = true;
    line.epoch_left = line.run_left = 4000;
    expect_bar(&line, 79, "epoch 1/2 evaluation 50/157   [======>             ]  1,604 img/s  1:06:40 left");
}

TEST(the_line_of_a_usual_run_says_all)
{
    char text[PROGRESS_LINE_COLUMNS + 1];
    const struct progress_line line = { .epoch = 3, .epochs = 90, .step = 5004, .steps = 5004, .loss = 2.1234,
                                        .accuracy = 0.4512, .images_per_second = 20345, .input_wait = 0.1,
                                        .epoch_left = NAN, .run_left = 1e5 };
    progress_line_write(&line, text);
    assert_string_equal(text, "epoch 3/90 step 5004/5004  loss 2.1234  acc 45.1%  20,345 img/s  wait 10.0%");
}

TEST(a_line_of_what_computes_nothing_has_no_loss)
{
    char text[PROGRESS_LINE_COLUMNS + 1];
    struct progress_line line = { .epoch = 1, .epochs = 1, .step = 2, .steps = 3, .loss = NAN, .accuracy = NAN,
                                  .images_per_second = 20345, .input_wait = 0.1, .epoch_left = 9, .run_left = 9 };
    progress_line_write(&line, text);
    assert_string_equal(text, "epoch 1/1 step 2/3  20,345 img/s  wait 10.0%  0:09 left");
    line.has_feed = true;
    line.batches = 3;
    line.depth = 4;
    progress_line_write(&line, text);
    assert_string_equal(text, "epoch 1/1 step 2/3  20,345 img/s  wait 10.0%  ready 3/4  0:09 left");
}

/* A run of `steps` steps of `step_ms`; what is said of it. */
static const char *said(enum progress_form kind, int64_t pace, uint64_t steps, uint64_t step_ms)
{
    static char text[65536];
    const struct settings settings = { .report = { .progress = kind, .interval = 1000000, .pace = pace } };
    const struct backend_ops backend = { .computes = true };
    const struct run_plan plan = { .devices.backend = &backend,
                                   .schedule = { .records = { 10 * steps, 0 }, .batch = 10, .towers = 1,
                                                 .epochs = 1 } };
    struct progress_display progress;
    struct account *account;
    uint64_t ids[10] = { 0 };
    struct capture capture;
    assert_int_equal(account_open(&account, &plan.schedule, 10), 0);
    assert_int_equal(progress_display_init(&progress, &settings, &plan, account), 0);
    account_begin(account, 1);
    capture_begin(&capture);
    for (uint64_t number = 0; number < steps; number++) {
        struct step_report step = { .result = { .loss_sum = 5, .correct = 1, .counted = 10 }, .ids = ids,
                                    .ended_ns = 1 + (number + 1) * step_ms * 1000000 };
        struct step_report *const steps_of_towers[] = { &step };
        assert_int_equal(schedule_find(&plan.schedule, number, 0, &step.local), 0);
        account_add(account, steps_of_towers, 1);
        progress_display_step(&progress, &step.local);
    }
    progress_display_clear(&progress);
    capture_end(&capture, text, sizeof(text));
    progress_display_release(&progress);
    account_close(account);
    return text;
}

static size_t count_of(const char *text, char byte)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == byte;
    return count;
}

TEST(a_terminal_sees_the_first_step_then_one_line_a_second_and_the_last_step)
{
    const char *text = said(PROGRESS_BAR, 10, 51, 700);
    assert_non_null(strstr(text, "\r\033[K1/1 1/51 "));
    assert_non_null(strstr(text, " 0:35 left"));
    assert_int_equal(count_of(text, '\r'), 26 + 1);
    text = said(PROGRESS_BAR, 10, 5001, 1);
    assert_non_null(strstr(text, "\r\033[K1/1 1001/5001 "));
    assert_non_null(strstr(text, "\r\033[K1/1 5001/5001 "));
    assert_int_equal(count_of(text, '\r'), 6 + 1);
    text = said(PROGRESS_BAR, 10, 60, 1);
    assert_int_equal(count_of(text, '\r'), 2 + 1);
    assert_null(strchr(text, '\n'));
    assert_string_equal(text + strlen(text) - 4, "\r\033[K");
}

TEST(elsewhere_lines_come_at_their_pace)
{
    const char *text = said(PROGRESS_LINE, 10, 51, 700);
    assert_int_equal(count_of(text, '\n'), 4);          /* after 0.7, 11.2, 21.7 and 32.2 s */
    assert_non_null(strstr(text, "\nepoch 1/1 step 16/51  loss 0.5000  acc 10.0%  14 img/s"));
    assert_int_equal(count_of(text, '\r'), 0);
    assert_int_equal(count_of(said(PROGRESS_LINE, 0, 51, 700), '\n'), 51);
    assert_int_equal(count_of(said(PROGRESS_JSON, 20, 51, 700), '{'), 2);
    assert_string_equal(said(PROGRESS_NONE, 0, 51, 700), "");
}

TEST(a_message_takes_the_place_of_a_live_line)
{
    static char text[256];
    struct capture capture;
    capture_begin(&capture);
    log_live("half way");
    log_message(LOG_RUN, "something happened");
    log_message(LOG_RUN, "something else");
    log_live("further");
    log_live(NULL);
    log_live(NULL);
    capture_end(&capture, text, sizeof(text));
    assert_string_equal(text, "\r\033[Khalf way\r\033[Ksomething happened\nsomething else\n\r\033[Kfurther\r\033[K");
}

TESTS_MAIN(NULL, NULL)
