/* Tests of the progress line: how wide it is, and when it is painted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tools/run/report.h"
#include "tools/text/progress_line.h"

static void a_progress_line_of_any_numbers_fits_a_terminal_in_whole_parts(void **state)
{
    (void)state;
    char text[PROGRESS_LINE_COLUMNS + 1];
    for (uint64_t steps = 1; steps < UINT64_MAX / 10; steps *= 10) {
        const struct progress_line line = { .epoch = (uint32_t)steps, .step = steps, .steps = steps,
                                            .loss = (double)steps, .accuracy = 1,
                                            .images_per_second = (double)steps, .input_wait = 1 };
        progress_line_write(&line, text);
        assert_true(strlen(text) <= PROGRESS_LINE_COLUMNS);
        assert_non_null(strstr(text, " step 1"));
        const char *const last = strrchr(text, ' ') + 1;
        assert_true(strcmp(last, "%") == 0 || strcmp(last, "images/s") == 0 || strstr(last, ".0000") != NULL ||
                    strchr(last, '/') != NULL || strchr(last, 'e') != NULL);
    }
}

static void the_line_of_a_usual_run_says_all(void **state)
{
    (void)state;
    char text[PROGRESS_LINE_COLUMNS + 1];
    const struct progress_line line = { 90, 5004, 5004, 2.1234, 0.4512, 20345, 0.1 };
    progress_line_write(&line, text);
    assert_string_equal(text, "epoch 90 step 5004/5004  loss 2.1234  acc 45.1 %  20,345 images/s  wait 10.0 %");
}

static void a_line_of_what_computes_nothing_has_no_loss(void **state)
{
    (void)state;
    char text[PROGRESS_LINE_COLUMNS + 1];
    const struct progress_line line = { 1, 2, 3, NAN, NAN, 20345, 0.1 };
    progress_line_write(&line, text);
    assert_string_equal(text, "epoch 1 step 2/3  20,345 images/s  wait 10.0 %");
}

/* A run of `steps` steps of `step_ms` on a terminal; what it paints. */
static const char *painted(uint64_t steps, uint64_t step_ms)
{
    static char text[65536];
    const struct settings settings = { .report = { PROGRESS_AUTO, 1000000 } };
    const struct backend_ops backend = { .computes = true };
    struct run_plan plan = { .devices.backend = &backend,
                             .schedule = { .records = { 10 * steps, 0 }, .batch = 10, .towers = 1, .epochs = 1 } };
    struct report report = { .settings = &settings, .plan = &plan, .rewrites = true };
    uint64_t ids[10] = { 0 };
    struct capture capture;
    assert_int_equal(account_open(&report.account, &plan.schedule), 0);
    account_begin(report.account, 1);
    capture_begin(&capture);
    for (uint64_t number = 0; number < steps; number++) {
        struct step_report step = { .result = { .loss_sum = 5, .correct = 1, .counted = 10 }, .ids = ids,
                                    .ended_ns = 1 + (number + 1) * step_ms * 1000000 };
        struct step_report *const steps_of_towers[] = { &step };
        assert_int_equal(schedule_find(&plan.schedule, number, 0, &step.span), 0);
        account_add(report.account, steps_of_towers, 1);
        report_step(&report, &step.span);
    }
    capture_end(&capture, text, sizeof(text));
    account_close(report.account);
    return text;
}

static size_t count_of(const char *text, char byte)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == byte;
    return count;
}

static void a_terminal_sees_the_first_step_then_one_line_a_second_and_the_last_step(void **state)
{
    (void)state;
    const char *text = painted(51, 700);
    assert_non_null(strstr(text, "\repoch 1 step 1/51 "));
    assert_int_equal(count_of(text, '\r'), 26);
    text = painted(5001, 1);
    assert_non_null(strstr(text, "\repoch 1 step 1001/5001 "));
    assert_non_null(strstr(text, "\repoch 1 step 5001/5001 "));
    assert_int_equal(count_of(text, '\r'), 6);
    assert_int_equal(strlen(text), 6 * (1 + PROGRESS_LINE_COLUMNS));
    text = painted(60, 1);
    assert_int_equal(count_of(text, '\r'), 2);
    assert_null(strchr(text, '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_progress_line_of_any_numbers_fits_a_terminal_in_whole_parts),
        cmocka_unit_test(the_line_of_a_usual_run_says_all),
        cmocka_unit_test(a_line_of_what_computes_nothing_has_no_loss),
        cmocka_unit_test(a_terminal_sees_the_first_step_then_one_line_a_second_and_the_last_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
