/* Prints the sum over all samples of a hash of epoch, position and record, as summary.json has it of a run
 * (sample_order_hash), of all ranks one after another.  order_hash SHARDS BATCH EPOCHS SEED WORLD [SETTINGS] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "tools/feed/pipetrain-feed.h"

static uint64_t hash_of(const struct pipetrain_feed_batch *batch)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const uint64_t seen[] = { batch->epoch, batch->first_position + i, batch->ids[i] };
        sum += XXH3_64bits(seen, sizeof(seen));
    }
    return sum;
}

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

/* The sum over the samples of one rank. Does not return if the feed fails. */
static uint64_t sum_of(const struct pipetrain_feed_options *options)
{
    static struct pipetrain_feed_problem problem;
    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    struct pipetrain_feed *feed;
    uint64_t sum = 0;
    int result = pipetrain_feed_open(&feed, options, &problem);
    while (result == PIPETRAIN_FEED_OK) {
        result = pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, &problem);
        if (result != PIPETRAIN_FEED_OK)
            break;
        sum += hash_of(&batch);
        result = pipetrain_feed_give_back(feed, batch.handle);
    }
    if (result != PIPETRAIN_FEED_END) {
        (void)fprintf(stderr, "%s: %s\n", pipetrain_feed_result_name(result), problem.message);
        exit(1);
    }
    pipetrain_feed_free(feed);
    return sum;
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    struct pipetrain_feed_options options = {
        .struct_bytes = sizeof(options), .shards = argv[1], .batch = number(argv[2]), .epochs = number(argv[3]),
        .seed = number(argv[4]), .world = number(argv[5]), .height = 28, .width = 28, .channels = 1,
        .settings = argc > 6 ? argv[6] : NULL,
    };
    uint64_t sum = 0;
    for (; options.rank < options.world; options.rank++)
        sum += sum_of(&options);
    printf("%016" PRIx64 "\n", sum);
    return 0;
}
