/* Tests of teams: what is split, and what happens where the system has no room for a team's threads. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compute/team.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"

enum { COUNT = 1000, GRAIN = 16 };

static void add_one(void *arg, uint32_t member, size_t first, size_t end)
{
    int *const numbers = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        numbers[i]++;
}

TEST(every_member_count_does_everything_once)
{
    for (uint32_t threads = 1; threads <= 5; threads++) {
        int numbers[COUNT] = { 0 };
        assert_int_equal(team_start(threads), 0);
        team_run(threads, COUNT, GRAIN, add_one, numbers);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(numbers[i], 1);
    }
}

static void add_seen(void *arg, uint32_t member, size_t first, size_t end)
{
    uint8_t *seen = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        seen[i]++;
}

TEST(a_team_does_everything_once_in_whole_grains)
{
    for (uint32_t threads = 1; threads <= 5; threads++)
        for (size_t count = 0; count < 100; count += 7)
            for (size_t grain = 1; grain <= 16; grain *= 4) {
                uint8_t seen[100] = { 0 };
                team_run(threads, count, grain, add_seen, seen);
                for (size_t i = 0; i < sizeof(seen); i++)
                    assert_int_equal(seen[i], i < count);
            }
}

/* In a process of its own: OpenMP would end it. */
static int code_of(int (*work)(void))
{
    const pid_t child = fork();
    if (child == 0)
        _exit(work());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int start_without_room(void)
{
    const struct rlimit limit = { .rlim_cur = 0, .rlim_max = 0 };
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 1;
    /* The C library may still have stacks of threads that ended: then the memory of the team's own is missing. */
    const int rc = team_start(8);
    return rc == -EAGAIN || rc == -ENOMEM ? 42 : 2;
}

TEST(a_team_that_cannot_be_had_is_an_error_and_no_end)
{
    if (test_is_sanitized())
        skip();                 /* which maps more than any limit */
    assert_int_equal(code_of(start_without_room), 42);
}

TESTS_MAIN(NULL, NULL)
