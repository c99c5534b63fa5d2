/* Tests of how --doctor watches the two processes that try to share memory of GPUs. Here they are shell scripts; the
 * real ones, on the simulated CUDA: tests/e2e/use/e2e_doctor.sh. */
#include <sys/stat.h>

#include "stage/clock.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/doctor/sharing.h"

#define SECOND_NS 1000000000u
#define LIMIT_NS (60ull * SECOND_NS)

/* The scripts get RANK SOCKET ANSWER as $2 to $4. */
static struct sharing try_script(const char *script, uint64_t limit_ns)
{
    struct sharing sharing = { .works = true };
    const char *const path = fixture_path(folder, "program");
    fixture_write_text(path, script);
    assert_int_equal(chmod(path, 0700), 0);
    sharing_try(path, limit_ns, &sharing);
    return sharing;
}

static void assert_refused(const struct sharing *sharing, const char *why)
{
    assert_false(sharing->works);
    assert_string_equal(sharing->why, why);
}

TEST(two_processes_are_started_that_print_nothing_and_can_talk)
{
    static const char script[] = "#!/bin/sh\necho words; echo words >&2\n"
                                 "[ $# = 4 ] && [ \"$1\" = " SHARING_COMMAND " ] || exit 3\n"
                                 "[ -S /proc/$$/fd/$3 ] && [ -p /proc/$$/fd/$4 ] && : >\"${0%/*}/rank$2\"\n";
    struct capture capture;
    char printed[64];
    capture_begin(&capture);
    const struct sharing sharing = try_script(script, LIMIT_NS);
    capture_end(&capture, printed, sizeof(printed));
    assert_string_equal(printed, "");
    assert_true(fixture_exists(fixture_path(folder, "rank0")));
    assert_true(fixture_exists(fixture_path(folder, "rank1")));
    assert_refused(&sharing, "a process that tried it ended without an answer");
}

TEST(processes_that_do_not_end_are_killed_after_the_limit)
{
    const uint64_t begun_ns = clock_now_ns();
    const struct sharing sharing = try_script("#!/bin/sh\nexec sleep 60\n", SECOND_NS / 5);
    assert_true(clock_now_ns() - begun_ns < 20ull * SECOND_NS);
    assert_refused(&sharing, "the processes that tried it had not ended after 0.2 s");
}

TEST(a_process_that_hangs_while_the_other_has_ended_is_killed)
{
    const struct sharing sharing = try_script("#!/bin/sh\n[ $2 = 0 ] || exec sleep 60\n", SECOND_NS / 5);
    assert_refused(&sharing, "the processes that tried it had not ended after 0.2 s");
}

TEST(a_process_that_crashes_is_a_reason)
{
    const struct sharing sharing = try_script("#!/bin/sh\n[ $2 = 0 ] || kill -SEGV $$\n", LIMIT_NS);
    assert_refused(&sharing, "a process that tried it was ended by signal 11");
}

TEST(half_an_answer_is_none)
{
    const struct sharing sharing = try_script("#!/bin/sh\nprintf '\\0\\0\\0\\0' >/proc/$$/fd/$4\n", LIMIT_NS);
    assert_refused(&sharing, "a process that tried it ended without an answer");
}

TEST(a_program_that_cannot_be_started_is_a_reason)
{
    struct sharing sharing = { .works = true };
    sharing_try(fixture_path(folder, "absent"), LIMIT_NS, &sharing);
    assert_refused(&sharing, "a process that tried it ended without an answer");
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
