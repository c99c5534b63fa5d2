/* Tests of the line that says how far long work is. */
#include <stdbool.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tools/lib/text/progress.h"

static char said[1024];

/* What a step of so many says when it is time to say something, on a terminal or not. */
static const char *say(struct progress *progress, bool is_terminal, uint64_t count)
{
    struct capture capture;
    progress->rewrites = is_terminal;
    if (atomic_load(&progress->next_ns) != UINT64_MAX)
        atomic_store(&progress->next_ns, 0);
    capture_begin(&capture);
    progress_add(progress, count);
    capture_end(&capture, said, sizeof(said));
    return said;
}

TEST(bytes_are_shown_in_mib_with_the_share_that_is_done)
{
    struct progress progress;
    progress_begin_bytes(&progress, "checking", UINT64_C(8000) << 20);
    assert_non_null(strstr(say(&progress, false, UINT64_C(2000) << 20),
                           "checking: 2,000 of 8,000 MiB, 25 %, about 0 s left\n"));
}

TEST(what_is_done_in_steps_is_shown_as_what_they_come_to)
{
    struct progress progress;
    progress_begin_steps(&progress, "writing and reading back", "records", 24000, 2);
    assert_non_null(strstr(say(&progress, false, 12000), ": 6,000 of 24,000 records, 25 %, about 0 s left\n"));
}

TEST(lines_may_be_objects)
{
    struct progress progress;
    progress_choose(PROGRESS_JSON);
    progress_begin_steps(&progress, "writing", "records", 24000, 2);
    assert_int_equal(strncmp(say(&progress, false, 12000), "{\"kind\":\"working\",\"what\":\"writing\","
                             "\"unit\":\"records\",\"done\":6000,\"total\":24000,\"seconds_left\":0.", 91), 0);
    assert_string_equal(said + strlen(said) - 2, "}\n");
    progress_begin(&progress, "reading", "records", 0);
    assert_string_equal(say(&progress, false, 3), "{\"kind\":\"working\",\"what\":\"reading\",\"unit\":\"records\","
                        "\"done\":3,\"total\":null,\"seconds_left\":null}\n");
    progress_choose(PROGRESS_AUTO);
}

TEST(the_line_of_a_terminal_is_painted_over_and_as_wide_as_fits)
{
    struct progress progress;
    struct capture capture;
    progress_begin(&progress, "making something that has a long name", "records of samples", UINT64_MAX);
    assert_int_equal(strlen(say(&progress, true, UINT64_MAX / 2)), strlen("\r\033[K") + 79);
    assert_int_equal(strncmp(said, "\r\033[Kmaking", 10), 0);
    progress_begin(&progress, "writing", "records", 3);
    assert_string_equal(say(&progress, true, 1), "\r\033[Kwriting: 1 of 3 records, 33 %, about 0 s left");
    capture_begin(&capture);
    progress_end(&progress);
    progress_end(&progress);
    capture_end(&capture, said, sizeof(said));
    assert_string_equal(said, "\r\033[K");
}

TEST(what_is_kept_to_a_terminal_is_not_said_elsewhere)
{
    struct progress progress;
    progress_begin(&progress, "checking", "files", 3);
    progress.rewrites = false;
    progress_keep_to_terminal(&progress);
    assert_string_equal(say(&progress, false, 1), "");
    progress_begin(&progress, "checking", "files", 3);
    progress.rewrites = true;
    progress_keep_to_terminal(&progress);
    assert_string_not_equal(say(&progress, true, 1), "");
}

TEST(it_is_said_as_was_chosen)
{
    struct progress progress;
    progress_choose(PROGRESS_NONE);
    progress_begin(&progress, "checking", "files", 3);
    assert_false(progress.rewrites);
    assert_string_equal(say(&progress, false, 1), "");
    progress_choose(PROGRESS_BAR);
    progress_begin(&progress, "checking", "files", 3);
    assert_true(progress.rewrites);
    progress_choose(PROGRESS_LINE);
    progress_begin(&progress, "checking", "files", 3);
    assert_false(progress.rewrites);
    progress_choose(PROGRESS_AUTO);
}

TESTS_MAIN(NULL, NULL)
