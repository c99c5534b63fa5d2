/* Train on shards with libpipetrain-feed: prints what each epoch has, and goes on where an earlier call was interrupted.
 *     cc feed.c $(pkg-config --cflags --libs pipetrain-feed) && ./a.out data/digits */
#include <inttypes.h>
#include <pipetrain-feed.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static struct pipetrain_feed *feed;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    pipetrain_feed_interrupt(feed);
}

static void check(int result, const struct pipetrain_feed_problem *problem)
{
    if (result == PIPETRAIN_FEED_OK)
        return;
    fprintf(stderr, "%s: %s\n", pipetrain_feed_result_name(result), problem->message);
    exit(1);
}

/* Go to the position in feed.state, if there is one. */
static void resume(struct pipetrain_feed_problem *problem)
{
    char state[PIPETRAIN_FEED_STATE_BYTES];
    FILE *const file = fopen("feed.state", "rb");
    if (file == NULL)
        return;
    const size_t bytes = fread(state, 1, sizeof(state), file);
    fclose(file);
    check(pipetrain_feed_seek(feed, state, bytes, problem), problem);
}

/* Write the position after the batches that were taken. */
static void save(struct pipetrain_feed_problem *problem)
{
    char state[PIPETRAIN_FEED_STATE_BYTES];
    size_t bytes;
    uint64_t epoch, step;
    check(pipetrain_feed_position(feed, &epoch, &step), problem);
    check(pipetrain_feed_state(feed, epoch, step, state, &bytes, problem), problem);
    FILE *const file = fopen("feed.state", "wb");
    if (file == NULL || fwrite(state, 1, bytes, file) != bytes || fclose(file) != 0)
        perror("feed.state");
    printf("stopped before step %" PRIu64 " of epoch %" PRIu64 "\n", step, epoch);
}

int main(int argc, char **argv)
{
    static struct pipetrain_feed_problem problem;
    const struct pipetrain_feed_options options = {
        .struct_bytes = sizeof(options), .shards = argc > 1 ? argv[1] : "data/digits", .height = 28, .width = 28,
        .channels = 1, .batch = 128, .epochs = 3, .seed = 1,
        .settings = "augment.crop = shift\n"
                    "data.on_corrupt = skip\n",
    };
    check(pipetrain_feed_open(&feed, &options, &problem), &problem);
    signal(SIGINT, on_interrupt);
    resume(&problem);

    struct pipetrain_feed_batch batch = { .struct_bytes = sizeof(batch) };
    uint64_t images = 0, sum = 0;
    int result;
    while ((result = pipetrain_feed_take(feed, PIPETRAIN_FEED_NO_LIMIT, &batch, &problem)) == PIPETRAIN_FEED_OK) {
        for (uint32_t i = 0; i < batch.count * 28 * 28; i++)        /* here a step would be trained */
            sum += batch.images[i];
        images += batch.count;
        if (batch.is_last_of_epoch)
            printf("epoch %" PRIu64 ": %" PRIu64 " images, mean pixel %.2f\n", batch.epoch, images,
                   (double)sum / (double)(images * 28 * 28));
        check(pipetrain_feed_give_back(feed, batch.handle), &problem);
    }
    if (result == PIPETRAIN_FEED_INTERRUPTED)
        save(&problem);
    else if (result != PIPETRAIN_FEED_END)
        check(result, &problem);

    struct pipetrain_feed_stats stats = { .struct_bytes = sizeof(stats) };
    check(pipetrain_feed_stats(feed, &stats), &problem);
    printf("%s\n", stats.limit);
    pipetrain_feed_free(feed);
    return 0;
}
