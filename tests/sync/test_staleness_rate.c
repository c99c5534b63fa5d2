/* Tests of sync.staleness_rate with whole towers: by what an asynchronous tower's updates are divided. */
#include <string.h>

#include "sync/reduce_server.h"
#include "tests/helpers/test.h"
#include "tests/helpers/trainer_fixture.h"

enum { TOWERS = 3, BOUND = 3 };

/* Of each tower, written by its trainer's thread alone. */
static struct pushes {
    uint32_t staleness;             /* of the weights that it fetched last */
    uint32_t delay[BOUND + 1];      /* of its pushes after a fetch of this staleness; 0: none yet */
    bool varies;                    /* two such pushes had different ones */
} pushes[TOWERS];

/* modes.c calls these in place of the functions of reduce_server.c. */
int __real_reduce_server_fetch(struct reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound,
                               uint32_t *staleness_out);
int __wrap_reduce_server_fetch(struct reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound,
                               uint32_t *staleness_out);
int __wrap_reduce_server_fetch(struct reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound,
                               uint32_t *staleness_out)
{
    const int rc = __real_reduce_server_fetch(reduce, tower, step, bound, staleness_out);
    pushes[tower].staleness = *staleness_out;
    return rc;
}

int __real_reduce_server_push(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay);
int __wrap_reduce_server_push(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay);
int __wrap_reduce_server_push(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay)
{
    struct pushes *const own = &pushes[tower];
    assert(own->staleness <= BOUND);
    uint32_t *const seen = &own->delay[own->staleness];
    own->varies = own->varies || (*seen != 0 && *seen != delay);
    *seen = delay;
    return __real_reduce_server_push(reduce, tower, bucket, batch, delay);
}

/* The last tower's first samples come late, so the others have each staleness up to the bound. */
TEST(updates_are_divided_by_a_staleness_above_1_if_asked_for)
{
    static const uint32_t expected[2][BOUND + 1] = { { 1, 1, 1, 1 }, { 1, 1, 2, 3 } };
    static struct fixture_result result;
    for (int divides = 0; divides < 2; divides++) {
        memset(pushes, 0, sizeof(pushes));
        fixture_result_of(&result, &(struct fixture_spec){
            .schedule = { .records = { 118, 5 }, .batch = 12, .towers = TOWERS, .epochs = 2 },
            .optimizer = { .kind = OPTIMIZER_SGD }, .mode = SYNC_ASYNC, .max_staleness = BOUND, .is_late = true,
            .divides_rate = divides == 1 });
        for (uint32_t d = 0; d < TOWERS; d++) {
            assert_false(pushes[d].varies);
            for (uint32_t s = 0; s <= BOUND; s++)
                if (d + 1 < TOWERS || pushes[d].delay[s] != 0)
                    assert_int_equal(pushes[d].delay[s], expected[divides][s]);
        }
    }
}

TESTS_MAIN(NULL, NULL)
