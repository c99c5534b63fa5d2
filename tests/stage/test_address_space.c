/* Tests of the proof that there is room, against limits the kernel keeps. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "stage/address_space.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"

#define MIB ((size_t)1 << 20)

TEST(without_a_limit_there_is_room)
{
    assert_int_equal(check_address_space(64 * MIB), 0);
    assert_int_equal(check_address_space(SIZE_MAX / 2), -ENOMEM);
}

/* With so little that the C library itself cannot tell how it went, nothing is asserted meanwhile. */
TEST(proved_is_what_a_limit_leaves_and_nothing_is_kept)
{
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    const int rc = check_address_space(4096);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(rc, -ENOMEM);
    /* More than the processor's addresses in all. */
    for (int i = 0; i < 150000; i++)
        assert_int_equal(check_address_space(1024 * MIB), 0);
}

int main(void)
{
    if (test_is_sanitized())
        return 77;              /* which maps more than any limit */
    return tests_run(NULL, NULL);
}
