/* Tests of what limits of the process leave, against what the kernel then lets it map. */
#include <errno.h>
#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "stage/address_space.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"
#include "tools/lib/cpu_times.h"
#include "tools/lib/limits.h"

#define MIB ((size_t)1 << 20)

TEST(without_limits_everything_is_left)
{
    const struct limits_left left = limits_left();
    assert_true(left.address_space == SIZE_MAX);
    assert_true(left.data == SIZE_MAX);
}

TEST(the_time_of_the_cores_is_divided_among_all_who_use_them)
{
    struct cores_seen before = { .cpus = { .busy = 1000, .stolen = 100, .all = 5000 }, .own_seconds = 1, .at_ns = 7,
                                 .count = 2, .quota = INFINITY };
    struct cores_seen after = before;
    const uint64_t per_second = (uint64_t)sysconf(_SC_CLK_TCK);
    after.at_ns += UINT64_C(10000000000);       /* 20 s of two cores: 8 ours, 6 of others, 2 stolen, 4 idle */
    after.own_seconds += 8;
    after.cpus = (struct cpu_times){ .busy = 1000 + 14 * per_second, .stolen = 100 + 2 * per_second,
                                     .all = 5000 + 20 * per_second };
    struct cores_use use = cores_use(&before, &after);
    assert_true(fabs(use.own - 0.4) < 1e-9 && fabs(use.others - 0.3) < 1e-9 && fabs(use.stolen - 0.1) < 1e-9);
    after.quota = before.quota = 1;             /* 10 s: 8 ours; others had the other core, and 2 s are idle */
    after.cpus.busy = before.cpus.busy + 18 * per_second;
    after.periods = 100;
    after.throttled = 40;
    use = cores_use(&before, &after);
    assert_true(fabs(use.own - 0.8) < 1e-9 && fabs(use.others) < 1e-9 && fabs(use.throttled - 0.4) < 1e-9);
    after.quota = before.quota = INFINITY;
    before.cpus = after.cpus = (struct cpu_times){ 0 };         /* there is no /proc/stat */
    use = cores_use(&before, &after);
    assert_true(fabs(use.own - 0.4) < 1e-9 && isnan(use.others) && isnan(use.stolen));
    after.at_ns = before.at_ns + 1000000;       /* too short */
    assert_true(isnan(cores_use(&before, &after).own));
    assert_true(cores_look().own_seconds >= 0 && cores_look().count > 0);
}

static void limit_to(int resource, size_t bytes, struct rlimit *before)
{
    assert_int_equal(getrlimit(resource, before), 0);
    const struct rlimit limit = { .rlim_cur = bytes, .rlim_max = before->rlim_max };
    assert_int_equal(setrlimit(resource, &limit), 0);
}

static void expect_exact(int resource, size_t (*left_now)(void))
{
    struct rlimit before;
    limit_to(resource, 4096 * MIB, &before);
    const size_t left = left_now();
    const int fits = check_address_space(left - MIB), is_over = check_address_space(left + MIB);
    assert_int_equal(setrlimit(resource, &before), 0);
    assert_in_range(left, 3000 * MIB, 4096 * MIB);
    assert_int_equal(fits, 0);
    assert_int_equal(is_over, -ENOMEM);
}

static size_t address_space_left(void)
{
    return limits_left().address_space;
}

static size_t data_left(void)
{
    return limits_left().data;
}

TEST(what_is_left_can_be_mapped_and_no_more)
{
    expect_exact(RLIMIT_AS, address_space_left);
    expect_exact(RLIMIT_DATA, data_left);
}

TEST(a_limit_below_what_is_used_leaves_nothing)
{
    struct rlimit before;
    limit_to(RLIMIT_AS, MIB, &before);
    const struct limits_left left = limits_left();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(left.address_space == 0);
    assert_true(left.data == SIZE_MAX);
}

TEST(a_program_may_open_as_many_files_as_the_system_allows)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max > 64 ? 64 : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limits_prepare(), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
}

int main(void)
{
    if (test_is_sanitized())
        return 77;              /* which maps more than any limit */
    return tests_run(NULL, NULL);
}
