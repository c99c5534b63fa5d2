/* The staging slots of one tower, between its feeder and its thread: a cycle of `depth` slots, `published - given_back`
 * of which hold batches. */
#include "stage/slots.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "stage/clock.h"
#include "stage/trace/range.h"

/* Slot number n, counted over the run, is slots[n % depth]. given_back <= taken <= published <= given_back + depth. The
 * lock protects all fields that are not constant. */
struct slots {
    pthread_mutex_t lock;
    pthread_cond_t has_batch, has_room;
    struct device *device;              /* constant */
    struct batch_layout layout;         /* constant */
    uint32_t depth;                     /* constant */
    uint64_t given_back;
    bool finished;                      /* the feeder publishes no more slots */
    bool ended;                         /* the tower takes no more slots */
    bool cancelled;
    struct slots_counts counts;
    struct slot slots[];
};

static int slot_open(struct slot *slot, struct device *device, const struct batch_layout *layout)
{
    slot->ids = calloc(layout->capacity, sizeof(slot->ids[0]));
    if (slot->ids == NULL)
        return -ENOMEM;
    int rc = device->ops->alloc(device, layout->block_bytes, &slot->block);
    if (rc)
        return rc;
    slot->pixels = slot->block;
    rc = device->ops->event_open(device, EVENT_ORDER, &slot->ready);
    return rc ? rc : device->ops->event_open(device, EVENT_ORDER, &slot->free);
}

static void slot_close(struct slot *slot, struct device *device)
{
    device->ops->event_close(slot->free);
    device->ops->event_close(slot->ready);
    device->ops->free(device, slot->block);
    free(slot->ids);
}

int slots_open(struct slots **slots_out, struct device *device, uint32_t depth, const struct batch_layout *layout)
{
    assert(depth >= 1);
    struct slots *slots = calloc(1, sizeof(*slots) + depth * sizeof(slots->slots[0]));
    if (slots == NULL)
        return -ENOMEM;
    pthread_mutex_init(&slots->lock, NULL);
    pthread_cond_init(&slots->has_batch, NULL);
    pthread_cond_init(&slots->has_room, NULL);
    slots->device = device;
    slots->depth = depth;
    slots->layout = *layout;
    for (uint32_t i = 0; i < depth; i++) {
        const int rc = slot_open(&slots->slots[i], device, layout);
        if (rc) {
            slots_close(slots);
            return rc;
        }
    }
    *slots_out = slots;
    return 0;
}

void slots_close(struct slots *slots)
{
    if (slots == NULL)
        return;
    assert(slots->given_back == slots->counts.taken || slots->cancelled);
    for (uint32_t i = 0; i < slots->depth; i++)
        slot_close(&slots->slots[i], slots->device);
    pthread_cond_destroy(&slots->has_room);
    pthread_cond_destroy(&slots->has_batch);
    pthread_mutex_destroy(&slots->lock);
    free(slots);
}

uint32_t slots_depth(const struct slots *slots)
{
    return slots->depth;
}

static struct slot *slot_at(struct slots *slots, uint64_t number)
{
    return &slots->slots[number % slots->depth];
}

static bool is_full(const struct slots *slots)
{
    return slots->counts.published - slots->given_back == slots->depth;
}

int slots_empty(struct slots *slots, struct slot **slot_out)
{
    int rc = 0;
    range_begin(TRACE_WAIT_SLOT, RANGE_NO_BATCH);
    pthread_mutex_lock(&slots->lock);
    while (is_full(slots) && !slots->ended && !slots->cancelled)
        wait_timed(&slots->has_room, &slots->lock, &slots->counts.empty_waited_ns);
    if (slots->cancelled)
        rc = -ECANCELED;
    else if (slots->ended)
        rc = -ENODATA;
    else
        *slot_out = slot_at(slots, slots->counts.published);
    pthread_mutex_unlock(&slots->lock);
    range_end();
    return rc;
}

void slots_publish(struct slots *slots, struct slot *slot)
{
    const struct batch_image *const image = &slots->layout.of[slot->local.phase];
    pthread_mutex_lock(&slots->lock);
    assert(slot == slot_at(slots, slots->counts.published) && !is_full(slots));
    slot->labels = batch_image_labels(image, slot->block);
    slot->mixes = batch_image_mixes(image, slot->block);
    slots->counts.published++;
    pthread_cond_signal(&slots->has_batch);
    pthread_mutex_unlock(&slots->lock);
}

/* Called with the lock held. */
static struct slot *slot_take(struct slots *slots, uint32_t found)
{
    struct slot *const slot = slot_at(slots, slots->counts.taken++);
    slot->slots_found = found;
    return slot;
}

int slots_take(struct slots *slots, struct slot **slot_out)
{
    int rc = 0;
    range_begin(TRACE_INPUT_WAIT, RANGE_NO_BATCH);
    pthread_mutex_lock(&slots->lock);
    const uint64_t found = slots->counts.published - slots->counts.taken;
    while (slots->counts.taken == slots->counts.published && !slots->finished && !slots->cancelled)
        wait_timed(&slots->has_batch, &slots->lock, &slots->counts.take_waited_ns);
    if (slots->cancelled)
        rc = -ECANCELED;
    else if (slots->counts.taken == slots->counts.published)
        rc = -ENODATA;
    else
        *slot_out = slot_take(slots, (uint32_t)found);
    pthread_mutex_unlock(&slots->lock);
    range_end();
    return rc;
}

void slots_give_back(struct slots *slots, struct slot *slot)
{
    pthread_mutex_lock(&slots->lock);
    assert(slot == slot_at(slots, slots->given_back) && slots->given_back < slots->counts.taken);
    (void)slot;
    slots->given_back++;
    pthread_cond_signal(&slots->has_room);
    pthread_mutex_unlock(&slots->lock);
}

/* Set one of the three flags and wake both sides. */
static void slots_set(struct slots *slots, bool *end)
{
    pthread_mutex_lock(&slots->lock);
    *end = true;
    pthread_cond_broadcast(&slots->has_batch);
    pthread_cond_broadcast(&slots->has_room);
    pthread_mutex_unlock(&slots->lock);
}

void slots_finish(struct slots *slots)
{
    slots_set(slots, &slots->finished);
}

void slots_end(struct slots *slots)
{
    slots_set(slots, &slots->ended);
}

void slots_cancel(void *slots)
{
    struct slots *const cancelled = slots;
    slots_set(cancelled, &cancelled->cancelled);
}

void slots_count(struct slots *slots, struct slots_counts *counts_out)
{
    pthread_mutex_lock(&slots->lock);
    *counts_out = slots->counts;
    pthread_mutex_unlock(&slots->lock);
}
