/* Tests of the address space check for oneDNN: a check and a creation exclude each other. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <time.h>

#include "compute/onednn/onednn_api.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"

static atomic_bool is_begun, is_proved;

static void *prove(void *arg)
{
    (void)arg;
    atomic_store(&is_begun, true);
    const int rc = nn_jit_check_memory();
    atomic_store(&is_proved, true);
    return rc == 0 ? NULL : &is_proved;
}

static void a_proof_waits_until_nothing_is_being_made(void **state)
{
    (void)state;
    const struct timespec nap = { .tv_nsec = 50000000 };
    pthread_t prover;
    void *failed;
    atomic_store(&is_begun, false);
    atomic_store(&is_proved, false);
    assert_int_equal(nn_jit_begin(), 0);
    assert_int_equal(pthread_create(&prover, NULL, prove, NULL), 0);
    while (!atomic_load(&is_begun))
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    nanosleep(&nap, NULL);
    assert_false(atomic_load(&is_proved));
    nn_jit_end();
    pthread_join(prover, &failed);
    assert_null(failed);
}

/* With so little memory the C library cannot report, so nothing is asserted meanwhile. */
static void what_is_short_is_not_held(void **state)
{
    (void)state;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    const int rc = nn_jit_begin();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(rc, -ENOMEM);
    assert_int_equal(nn_jit_result(0), -ENOMEM);
    assert_int_equal(nn_jit_begin(), 0);
    nn_jit_end();
    assert_int_equal(nn_jit_result(0), 0);
}

/* Sanitizers map more than any limit. */
int main(void)
{
    const struct CMUnitTest waits[] = { cmocka_unit_test(a_proof_waits_until_nothing_is_being_made) };
    const struct CMUnitTest limits[] = { cmocka_unit_test(what_is_short_is_not_held) };
    const int failed = cmocka_run_group_tests(waits, NULL, NULL);
    return test_is_sanitized() || failed != 0 ? failed : cmocka_run_group_tests(limits, NULL, NULL);
}
