/* The ring of batches of one tower. Readers claim batches, decoders fill them, the feeder takes them in the order of
 * their numbers and gives them back. */
#include "stage/ring.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "stage/clock.h"

enum place_state { BATCH_FREE, BATCH_FILLING, BATCH_FULL, BATCH_TAKEN };

/* A place of the ring: `number` is its current or next batch. When a batch is given back, its place is for the first
 * number that has none, so batches may be given back in any order. The ring's lock protects all fields but
 * `missing`. */
struct place {
    struct batch batch;         /* first, so that a pointer to the batch is one to its place */
    uint64_t number;
    enum place_state state;
    _Atomic uint32_t missing;   /* while filling: samples not yet written */
};

struct ring {
    pthread_mutex_t lock;
    pthread_cond_t has_full;    /* the batch for which takers wait is full, or there will be none */
    pthread_cond_t has_room;    /* a place is free for its next number */
    uint32_t depth;
    struct batch_layout layout;
    uint64_t next;              /* number of the next batch to be taken */
    uint64_t end;               /* number of the last batch plus 1 */
    uint64_t full;              /* number of batches that are full and not taken */
    uint64_t lent;              /* number of batches that are taken and not given back */
    bool cancelled;
    struct ring_counts counts;
    uint64_t *ids;              /* the record ids of all batches */
    uint64_t unplaced;          /* the first number without a place: those from `next` on have one until then */
    struct place **of_number;   /* [number % depth]: the place of a number in [next, unplaced) */
    struct place places[];
};

static void place_init(struct ring *ring, uint32_t i, void *block)
{
    struct place *place = &ring->places[i];
    place->batch.block = block;
    place->batch.pixels = block;
    place->batch.ids = ring->ids + (size_t)i * ring->layout.capacity;
    place->state = BATCH_FREE;
    atomic_init(&place->missing, 0);
}

int ring_open(struct ring **ring_out, uint32_t depth, const struct batch_layout *layout, void *const *blocks)
{
    assert(depth >= 1);
    struct ring *ring = calloc(1, sizeof(*ring) + depth * sizeof(ring->places[0]));
    uint64_t *ids = calloc((size_t)depth * layout->capacity, sizeof(*ids));
    struct place **const of_number = calloc(depth, sizeof(struct place *));
    if (ring == NULL || ids == NULL || of_number == NULL) {
        free(of_number);
        free(ids);
        free(ring);
        return -ENOMEM;
    }
    pthread_mutex_init(&ring->lock, NULL);
    clock_init_condition(&ring->has_full);
    pthread_cond_init(&ring->has_room, NULL);
    ring->depth = depth;
    ring->layout = *layout;
    ring->ids = ids;
    ring->of_number = of_number;
    for (uint32_t i = 0; i < depth; i++)
        place_init(ring, i, blocks[i]);
    ring_range(ring, 0, UINT64_MAX);
    *ring_out = ring;
    return 0;
}

void ring_close(struct ring *ring)
{
    if (ring == NULL)
        return;
    assert(ring->lent == 0);
    pthread_cond_destroy(&ring->has_room);
    pthread_cond_destroy(&ring->has_full);
    pthread_mutex_destroy(&ring->lock);
    free(ring->of_number);
    free(ring->ids);
    free(ring);
}

/* Called with the lock held when all samples of the batch are written. */
static void place_publish(struct ring *ring, struct place *place)
{
    place->state = BATCH_FULL;
    ring->full++;
    ring->counts.published++;
    if (place->number == ring->next)
        pthread_cond_broadcast(&ring->has_full);
}

/* Called with the lock held by the first claim of the batch. */
static void place_begin(struct ring *ring, struct place *place, const struct local_batch *local)
{
    const struct batch_image *const image = &ring->layout.of[local->phase];
    assert(local->count <= ring->layout.capacity);
    place->batch.local = *local;
    place->batch.labels = batch_image_labels(image, place->batch.block);
    place->batch.mixes = batch_image_mixes(image, place->batch.block);
    place->state = BATCH_FILLING;
    atomic_store_explicit(&place->missing, local->count, memory_order_relaxed);
    if (local->count == 0)
        place_publish(ring, place);
}

int ring_claim(struct ring *ring, const struct local_batch *local, struct batch **batch_out)
{
    pthread_mutex_lock(&ring->lock);
    while (local->number >= ring->unplaced && !ring->cancelled)
        wait_timed(&ring->has_room, &ring->lock, &ring->counts.claim_waited_ns);
    struct place *const place = ring->of_number[local->number % ring->depth];
    const bool cancelled = ring->cancelled;
    assert(cancelled || place->number == local->number);
    if (!cancelled) {
        assert(place->state == BATCH_FREE || place->state == BATCH_FILLING);
        if (place->state == BATCH_FREE)
            place_begin(ring, place, local);
    }
    pthread_mutex_unlock(&ring->lock);
    if (cancelled)
        return -ECANCELED;
    *batch_out = &place->batch;
    return 0;
}

void ring_fill(struct ring *ring, struct batch *batch, uint32_t count)
{
    struct place *place = (struct place *)batch;
    /* Release: this caller's samples are written before the count decreases. Acquire: the last caller, which publishes
     * the batch, sees the samples of all callers. */
    const uint32_t missing = atomic_fetch_sub_explicit(&place->missing, count, memory_order_acq_rel);
    assert(missing >= count);
    if (missing != count || count == 0)
        return;
    pthread_mutex_lock(&ring->lock);
    place_publish(ring, place);
    pthread_mutex_unlock(&ring->lock);
}

static bool has_next(const struct ring *ring)
{
    const struct place *const place = ring->of_number[ring->next % ring->depth];
    return place->number == ring->next && place->state == BATCH_FULL;
}

/* Called with the lock held. Others that wait take the batch after this one. */
static struct batch *take_next(struct ring *ring, uint64_t full_found)
{
    struct place *const place = ring->of_number[ring->next % ring->depth];
    place->batch.full_found = (uint32_t)full_found;
    place->state = BATCH_TAKEN;
    ring->full--;
    ring->lent++;
    ring->next++;
    ring->counts.taken++;
    if (has_next(ring) || ring->next >= ring->end)
        pthread_cond_broadcast(&ring->has_full);
    return &place->batch;
}

/* Called with the lock held: wait until the next batch is full. 0, or as ring_take_until. */
static int await_next(struct ring *ring, uint64_t until_ns)
{
    for (bool in_time = true;; in_time = wait_timed_until(&ring->has_full, &ring->lock, until_ns,
                                                          &ring->counts.take_waited_ns)) {
        if (ring->cancelled)
            return -ECANCELED;
        if (ring->next >= ring->end)
            return -ENODATA;
        if (has_next(ring))
            return 0;
        if (!in_time)
            return ring->lent == ring->depth ? -EBUSY : -ETIMEDOUT;
    }
}

int ring_take_until(struct ring *ring, uint64_t until_ns, struct batch **batch_out)
{
    pthread_mutex_lock(&ring->lock);
    const uint64_t full_found = ring->full;
    const int rc = await_next(ring, until_ns);
    if (rc == 0)
        *batch_out = take_next(ring, full_found);
    pthread_mutex_unlock(&ring->lock);
    return rc;
}

int ring_take(struct ring *ring, struct batch **batch_out)
{
    return ring_take_until(ring, CLOCK_NEVER, batch_out);
}

/* Called with the lock held: the place is for the first number that has none. */
static void place_assign(struct ring *ring, struct place *place)
{
    place->number = ring->unplaced++;
    ring->of_number[place->number % ring->depth] = place;
}

void ring_give_back(struct ring *ring, struct batch *batch)
{
    struct place *place = (struct place *)batch;
    pthread_mutex_lock(&ring->lock);
    assert(place->state == BATCH_TAKEN);
    place->state = BATCH_FREE;
    place_assign(ring, place);
    ring->lent--;
    /* Readers wait for different numbers, so all are woken. */
    pthread_cond_broadcast(&ring->has_room);
    pthread_mutex_unlock(&ring->lock);
}

void ring_range(struct ring *ring, uint64_t first, uint64_t end)
{
    pthread_mutex_lock(&ring->lock);
    ring->next = ring->unplaced = first;
    for (uint32_t i = 0; i < ring->depth; i++)
        place_assign(ring, &ring->places[(first + i) % ring->depth]);
    ring->end = end;
    pthread_mutex_unlock(&ring->lock);
}

void ring_finish(struct ring *ring, uint64_t end)
{
    pthread_mutex_lock(&ring->lock);
    ring->end = end;
    pthread_cond_broadcast(&ring->has_full);
    pthread_mutex_unlock(&ring->lock);
}

void ring_cancel(void *ring)
{
    struct ring *const cancelled = ring;
    pthread_mutex_lock(&cancelled->lock);
    cancelled->cancelled = true;
    pthread_cond_broadcast(&cancelled->has_full);
    pthread_cond_broadcast(&cancelled->has_room);
    pthread_mutex_unlock(&cancelled->lock);
}

void ring_count(struct ring *ring, struct ring_counts *counts_out)
{
    pthread_mutex_lock(&ring->lock);
    *counts_out = ring->counts;
    pthread_mutex_unlock(&ring->lock);
}
