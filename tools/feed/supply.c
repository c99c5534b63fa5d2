/* The threads and batches of a feed from one position on: a loader with one ring. Called by the thread that opens,
 * seeks or closes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "tools/feed/feed_parts.h"

#define BLOCK_ALIGN 64u

/* The header has structs of its own for what is in a block. */
_Static_assert(sizeof(struct pipetrain_feed_mix) == sizeof(struct mix) &&
               offsetof(struct pipetrain_feed_mix, right) == offsetof(struct mix, right),
               "mixes are handed out as they are");
_Static_assert(sizeof(struct pipetrain_feed_record) == sizeof(struct raw_record) &&
               offsetof(struct pipetrain_feed_record, count) == offsetof(struct raw_record, count),
               "records are handed out as they are");
_Static_assert(PIPETRAIN_FEED_NO_LABEL == BATCH_NO_LABEL, "labels are handed out as they are");

static void *block_allocate(const struct feed_plan *plan)
{
    void *const block = plan->allocate != NULL ? plan->allocate(plan->memory_arg, plan->block_bytes)
                                               : aligned_alloc(BLOCK_ALIGN, plan->block_bytes);
    if (block != NULL && plan->is_raw)
        memset(block, 0, plan->block_bytes);    /* records that were not read point to nothing */
    return block;
}

static void block_release(const struct feed_plan *plan, void *block)
{
    if (block != NULL && plan->allocate != NULL)
        plan->release(plan->memory_arg, block, plan->block_bytes);
    else
        free(block);
}

void blocks_close(const struct feed_plan *plan, void **blocks)
{
    for (uint32_t i = 0; blocks != NULL && i < plan->depth; i++)
        block_release(plan, blocks[i]);
    free(blocks);
}

void **blocks_open(const struct feed_plan *plan)
{
    void **const blocks = calloc(plan->depth, sizeof(*blocks));
    for (uint32_t i = 0; blocks != NULL && i < plan->depth; i++) {
        blocks[i] = block_allocate(plan);
        if (blocks[i] == NULL) {
            blocks_close(plan, blocks);
            return NULL;
        }
    }
    return blocks;
}

static int start(struct supply *supply, void **blocks, const struct damage_sink *sink)
{
    const struct feed_plan *const plan = supply->plan;
    struct loader_spec spec = plan->spec;
    supply->lent = calloc(plan->depth, sizeof(*supply->lent));
    int rc = supply->lent != NULL ? stop_open(&supply->stop) : -ENOMEM;
    if (rc == 0)
        rc = ring_open(&supply->ring, plan->depth, &plan->layout, blocks);
    if (rc != 0)
        return rc;
    spec.schedule = &supply->schedule;
    spec.rings = &supply->ring;
    spec.stop = supply->stop;
    spec.damage_sink = *sink;
    return loader_start(&supply->loader, &spec);
}

int supply_start(struct supply **supply_out, const struct feed_plan *plan, uint64_t first, void **blocks,
                 const struct damage_sink *sink, struct pipetrain_feed_problem *problem)
{
    struct supply *const supply = calloc(1, sizeof(*supply));
    if (supply == NULL)
        return feed_fail(problem, PIPETRAIN_FEED_MEMORY, "%s", exit_cause(-ENOMEM));
    supply->plan = plan;
    supply->schedule = plan->schedule;
    supply->schedule.first = first;
    const int rc = start(supply, blocks, sink);
    if (rc == 0) {
        supply->blocks = blocks;
        *supply_out = supply;
        return PIPETRAIN_FEED_OK;
    }
    const bool is_told = supply->stop != NULL && stop_failed(supply->stop);
    const int result = is_told ? supply_failure(supply, problem)
                               : feed_fail(problem, feed_result_of(rc, PIPETRAIN_FEED_INTERNAL),
                                           "the loader cannot be started: %s", exit_cause(rc));
    (void)supply_close(supply);
    return result;
}

void supply_end(struct supply *supply, struct loader_counts *sum)
{
    struct loader_counts counts;
    loader_end(supply->loader);
    loader_join(supply->loader, &counts);
    loader_close(supply->loader);
    supply->loader = NULL;
    sum->records += counts.records;
    sum->bytes += counts.bytes;
    sum->corrupt_records += counts.corrupt_records;
    sum->decoder_warnings += counts.decoder_warnings;
}

void supply_clear(const struct supply *supply, struct batch *batch)
{
    struct pipetrain_feed_record *const records = batch->block;
    for (uint32_t i = 0; supply->plan->is_raw && i < supply->plan->layout.capacity; i++) {
        free((void *)records[i].bytes);
        records[i] = (struct pipetrain_feed_record){ NULL, 0 };
    }
}

void **supply_close(struct supply *supply)
{
    void **const blocks = supply->blocks;
    for (uint32_t i = 0; blocks != NULL && i < supply->plan->depth; i++)
        supply_clear(supply, &(struct batch){ .block = blocks[i] });
    ring_close(supply->ring);
    stop_close(supply->stop);
    free(supply->lent);
    free(supply);
    return blocks;
}

int supply_failure(const struct supply *supply, struct pipetrain_feed_problem *problem)
{
    static const struct { enum exit_code code; int result; } results[] = {
        { EXIT_CODE_DATA, PIPETRAIN_FEED_DATA }, { EXIT_CODE_MEMORY, PIPETRAIN_FEED_MEMORY },
    };
    int result = PIPETRAIN_FEED_INTERNAL;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].code == stop_code(supply->stop))
            result = results[i].result;
    feed_fail(problem, result, "%s", stop_message(supply->stop));
    if (problem != NULL)
        problem_find_record(problem);
    return result;
}
