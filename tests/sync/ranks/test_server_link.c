/* Tests of what reaches the asynchronous parameter server of rank 0 from the towers of other ranks, and what these get
 * from it. The ranks are in this process (tests/helpers/fake_mpi.h), with whole towers. */
#include <pthread.h>
#include <string.h>

#include <xxhash.h>

#include "compute/floats.h"
#include "sync/ranks/server_link.h"
#include "tests/helpers/test.h"
#include "tests/helpers/trainer_fixture.h"

enum { TOWERS = 6, RANKS = 3, HERE = TOWERS / RANKS, BATCHES = 40, BUCKETS = 64, FETCHES = 4096 };

/* Updates that the server made, and the hashes of gradients that were sent and used for them; by tower, batch and
 * bucket. */
static struct update { uint32_t pushed, sent; uint64_t used_hash, sent_hash; } updates[TOWERS][BATCHES][BUCKETS];
/* Hashes of all weights that the server gave. */
static uint64_t fetched[FETCHES];
static size_t fetch_count;
static uint32_t unknown_weights, answers;
static size_t floats;                   /* of an arena */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const float *numbers, size_t count)
{
    return XXH3_64bits(numbers, count * sizeof(float));
}

static void note_fetch(const float *weights)
{
    pthread_mutex_lock(&lock);
    assert(fetch_count < FETCHES);
    fetched[fetch_count++] = hash_of(weights, floats);
    pthread_mutex_unlock(&lock);
}

void __real_server_fetch(struct server *server, float *weights_out);
void __wrap_server_fetch(struct server *server, float *weights_out);
void __wrap_server_fetch(struct server *server, float *weights_out)
{
    __real_server_fetch(server, weights_out);
    note_fetch(weights_out);
}

/* The range that the last push of a tower has sent; the server makes updates with that range. */
static struct { size_t offset, count; } ranges[TOWERS][BUCKETS];

void __real_server_push(struct server *server, uint32_t tower, float *gradients, uint32_t bucket, uint64_t batch,
                        uint32_t delay);
void __wrap_server_push(struct server *server, uint32_t tower, float *gradients, uint32_t bucket, uint64_t batch,
                        uint32_t delay);
void __wrap_server_push(struct server *server, uint32_t tower, float *gradients, uint32_t bucket, uint64_t batch,
                        uint32_t delay)
{
    struct update *const update = &updates[tower][batch][bucket];
    pthread_mutex_lock(&lock);
    update->pushed++;
    if (tower >= HERE)
        update->used_hash = hash_of(gradients + ranges[tower][bucket].offset, ranges[tower][bucket].count);
    pthread_mutex_unlock(&lock);
    __real_server_push(server, tower, gradients, bucket, batch, delay);
}

/* The hash of gradients as the server adds them. */
static uint64_t hash_sent(const struct server_gradients *gradients, bool are_bf16)
{
    float numbers[FIXTURE_FLOATS_MAX];
    if (are_bf16)
        floats_from_bf16((const uint16_t *)gradients->numbers + gradients->offset, numbers, gradients->count);
    else
        memcpy(numbers, (const float *)gradients->numbers + gradients->offset, gradients->count * sizeof(float));
    return hash_of(numbers, gradients->count);
}

static bool are_bf16;

int __real_server_link_push(struct server_link *link, uint32_t tower, const struct server_gradients *gradients,
                            uint32_t bucket, uint64_t batch, uint32_t delay);
int __wrap_server_link_push(struct server_link *link, uint32_t tower, const struct server_gradients *gradients,
                            uint32_t bucket, uint64_t batch, uint32_t delay);
int __wrap_server_link_push(struct server_link *link, uint32_t tower, const struct server_gradients *gradients,
                            uint32_t bucket, uint64_t batch, uint32_t delay)
{
    struct update *const update = &updates[tower][batch][bucket];
    pthread_mutex_lock(&lock);
    update->sent++;
    update->sent_hash = hash_sent(gradients, are_bf16);
    ranges[tower][bucket].offset = gradients->offset;
    ranges[tower][bucket].count = gradients->count;
    pthread_mutex_unlock(&lock);
    return __real_server_link_push(link, tower, gradients, bucket, batch, delay);
}

int __real_server_link_fetch(struct server_link *link, uint32_t tower, uint64_t step, uint32_t bound,
                             const float **weights_out, uint32_t *staleness_out);
int __wrap_server_link_fetch(struct server_link *link, uint32_t tower, uint64_t step, uint32_t bound,
                             const float **weights_out, uint32_t *staleness_out);
int __wrap_server_link_fetch(struct server_link *link, uint32_t tower, uint64_t step, uint32_t bound,
                             const float **weights_out, uint32_t *staleness_out)
{
    const int rc = __real_server_link_fetch(link, tower, step, bound, weights_out, staleness_out);
    if (rc != 0)
        return rc;
    const uint64_t hash = hash_of(*weights_out, floats);
    bool is_known = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < fetch_count && !is_known; i++)
        is_known = fetched[i] == hash;
    unknown_weights += !is_known;
    answers++;
    pthread_mutex_unlock(&lock);
    return rc;
}

/* Every bucket of every training batch of which the tower has samples was pushed once, as it was sent; with norms, the
 * last bucket of each. Returns the number of training batches. */
static uint32_t check_updates(const struct schedule *schedule, uint32_t buckets, bool has_norms)
{
    struct local_batch local;
    uint32_t batches = 0;
    for (uint64_t number = 0; schedule_find(schedule, number, 0, &local) == 0; number++) {
        batches += local.phase == PHASE_TRAIN;
        for (uint32_t tower = 0; tower < TOWERS; tower++)
            for (uint32_t b = 0; b < BUCKETS; b++) {
                assert_int_equal(schedule_find(schedule, number, tower, &local), 0);
                const struct update *const update = &updates[tower][number][b];
                const bool is_due = local.phase == PHASE_TRAIN && local.count > 0 && b < buckets &&
                                    (!has_norms || b + 1 == buckets);
                assert_int_equal(update->pushed, is_due);
                assert_int_equal(update->sent, is_due && tower >= HERE);
                assert_true(update->sent_hash == update->used_hash);
            }
    }
    return batches;
}

static void check(struct optimizer optimizer, bool has_bf16_grads, uint32_t bound)
{
    static struct trainer_fixture fixture;
    static struct buckets buckets;
    struct schedule schedule = { .records = { 118, 5 }, .batch = 14, .towers = TOWERS, .epochs = 2 };
    are_bf16 = has_bf16_grads;
    memset(updates, 0, sizeof(updates));
    fetch_count = unknown_weights = answers = 0;
    trainer_fixture_open(&fixture, &(struct fixture_spec){
        .schedule = schedule, .optimizer = optimizer, .mode = SYNC_ASYNC, .max_staleness = bound, .ranks = RANKS,
        .has_bf16_grads = has_bf16_grads, .saves = true });
    fixture_start_all(&fixture);
    assert_int_equal(fixture_ready_all(&fixture), 0);
    trainer_buckets(fixture.towers[0].trainer, &buckets);
    assert_in_range(buckets.of[REGION_GRADIENTS].count, 2, BUCKETS);
    floats = tower_arena(trainer_tower(fixture.towers[0].trainer))->updated;
    fixture_go_all(&fixture);
    fixture_drain(&fixture);
    const uint32_t batches = check_updates(&schedule, buckets.of[REGION_GRADIENTS].count, optimizer.clip_norm > 0);
    trainer_fixture_close(&fixture);
    assert_int_equal(answers, batches * (TOWERS - HERE));
    assert_int_equal(unknown_weights, 0);
}

TEST(every_gradient_of_every_rank_is_applied_once_and_unchanged)
{
    check((struct optimizer){ .kind = OPTIMIZER_SGD }, false, 1);
    check((struct optimizer){ .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.05 }, false, 3);
}

TEST(gradients_are_sent_as_bf16)
{
    check((struct optimizer){ .kind = OPTIMIZER_SGD }, true, 2);
    check((struct optimizer){ .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.01, .clip_norm = 0.05 }, true, 2);
}

/* A run is cancelled while its towers fetch and push. */
TEST(a_cancel_ends_every_wait)
{
    static struct trainer_fixture fixture;
    for (uint32_t batches = 0; batches < 4; batches++) {
        memset(updates, 0, sizeof(updates));
        fetch_count = unknown_weights = answers = 0;
        trainer_fixture_open(&fixture, &(struct fixture_spec){
            .schedule = { .records = { 118, 5 }, .batch = 14, .towers = TOWERS, .epochs = 2 },
            .optimizer = { .kind = OPTIMIZER_SGD }, .mode = SYNC_ASYNC, .max_staleness = 2, .ranks = RANKS });
        fixture_start_all(&fixture);
        assert_int_equal(fixture_ready_all(&fixture), 0);
        floats = tower_arena(trainer_tower(fixture.towers[0].trainer))->updated;
        fixture_go_all(&fixture);
        for (uint32_t i = 0; i < batches; i++)
            assert_int_equal(fixture_next_batch(&fixture), 0);
        stop_fail_silently(fixture.stop, EXIT_CODE_DEVICE, "cancelled");
        while (fixture_next_batch(&fixture) == 0)
            ;
        trainer_fixture_close(&fixture);
    }
}

TESTS_MAIN(NULL, NULL)
