/* What the loader alone gives: batches of images of any size, taken and given back as fast as they come. Prints a line
 * of JSON.  make bench/feed && bench/feed [-OPTION VALUE]... SHARDS; usage() says which options. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loader/loader.h"
#include "stage/clock.h"

#define PROBLEM_BYTES 4096
#define CLASSES_MAX 100000

struct wish {
    const char *shards;
    uint32_t batch, side, channels, readers, decoders, depth;
    uint32_t lanes;             /* 0: one order for all */
    uint32_t epochs;
    uint32_t warming;           /* epochs before the rate is taken */
    uint32_t pause_ms;          /* of the one who takes the batches, for each */
    uint64_t steps;             /* 0: the epochs decide */
    size_t keep_bytes;
    enum shuffle shuffle;
    bool flips, changes_colour, is_trivial;
};

/* Waits of the one who takes the batches. */
struct waits {
    double *seconds;
    size_t count;
};

struct feed {
    uint64_t begun_ns, first_ns;
    uint64_t counted_ns, last_ns;       /* images are counted between them, behind the first batch of an epoch */
    uint64_t images, taken;     /* counted, and all */
    struct waits epochs, others;        /* for the first batch of a later epoch; for any other behind the first */
};

static void usage(void)
{
    (void)fputs("usage: feed [-b BATCH] [-s SIDE] [-c CHANNELS] [-e EPOCHS] [-n BATCHES] [-r READERS] [-d DECODERS]\n"
                "            [-p MILLISECONDS] [-w EPOCHS] [-k all|none] [-o full|block|none] [-l LANES] [-m] [-x] [-t] SHARDS\n"
                "-p: pause behind each batch, -w: not counted, -l: with -o block, -m: mirror half of the images,\n"
                "-x: change colours, -t: TrivialAugmentWide\n"
                "Default: -b 128 -s 224 -c 3 -e 1 -r 1 -k none -o full, a decoder for each core\n",
                stderr);
    exit(2);
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "feed: %s\n", what);
    exit(3);
}

static uint32_t number_of(const char *text)
{
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    if (*end != '\0' || number < 1 || number > UINT32_MAX)
        usage();
    return (uint32_t)number;
}

static enum shuffle shuffle_of(const char *name)
{
    static const char *const names[] = { [SHUFFLE_FULL] = "full", [SHUFFLE_BLOCK] = "block", [SHUFFLE_NONE] = "none" };
    for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum shuffle)i;
    usage();
    return SHUFFLE_NONE;
}

static size_t keep_of(const char *name)
{
    if (strcmp(name, "all") != 0 && strcmp(name, "none") != 0)
        usage();
    return strcmp(name, "all") == 0 ? LOADER_KEEP_ALL : LOADER_KEEP_NONE;
}

static struct wish read_wish(int argc, char **argv)
{
    const uint32_t cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    struct wish wish = { .batch = 128, .side = 224, .channels = 3, .readers = 1, .decoders = cores, .depth = 4,
                         .epochs = 1, .keep_bytes = LOADER_KEEP_NONE, .shuffle = SHUFFLE_FULL };
    uint32_t *const numbers[] = { ['b'] = &wish.batch, ['s'] = &wish.side, ['c'] = &wish.channels,
                                  ['e'] = &wish.epochs, ['r'] = &wish.readers, ['d'] = &wish.decoders,
                                  ['p'] = &wish.pause_ms, ['w'] = &wish.warming, ['l'] = &wish.lanes };
    int option;
    while ((option = getopt(argc, argv, "b:s:c:e:n:r:d:p:w:k:o:l:mxt")) != -1) {
        if (option == '?')
            usage();
        else if (option == 'm')
            wish.flips = true;
        else if (option == 'x')
            wish.changes_colour = true;
        else if (option == 't')
            wish.is_trivial = true;
        else if (option == 'k')
            wish.keep_bytes = keep_of(optarg);
        else if (option == 'o')
            wish.shuffle = shuffle_of(optarg);
        else if (option == 'n')
            wish.steps = number_of(optarg);
        else
            *numbers[option] = number_of(optarg);
    }
    if (optind + 1 != argc || wish.warming >= wish.epochs || (wish.lanes > 1 && wish.shuffle != SHUFFLE_BLOCK))
        usage();
    wish.shards = argv[optind];
    return wish;
}

static struct dataset *open_shards(const struct wish *wish)
{
    char problem[PROBLEM_BYTES] = "it cannot be opened";
    struct dataset *dataset = NULL;
    const struct dataset_options options = {
        .what = "train", .pattern = wish->shards, .shape = { wish->side, wish->side, wish->channels },
        .classes = CLASSES_MAX, .is_any_label_taken = true, .use_index_cache = true };
    if (dataset_open(&dataset, &options, problem, sizeof(problem)) < 0)
        fail(problem);
    return dataset;
}

static struct ring *open_ring(const struct wish *wish, const struct batch_layout *layout)
{
    struct ring *ring = NULL;
    void **const blocks = calloc(wish->depth, sizeof(*blocks));
    for (uint32_t i = 0; blocks != NULL && i < wish->depth; i++)
        blocks[i] = aligned_alloc(64, (layout->block_bytes + 63) / 64 * 64);
    if (blocks == NULL || blocks[wish->depth - 1] == NULL || ring_open(&ring, wish->depth, layout, blocks) < 0)
        fail("out of memory");
    return ring;
}

static void add_wait(struct waits *waits, uint64_t waited_ns)
{
    waits->seconds[waits->count++] = (double)waited_ns * 1e-9;
}

static void count_batch(struct feed *feed, const struct wish *wish, const struct batch *batch, uint64_t asked_ns)
{
    feed->last_ns = clock_now_ns();
    feed->taken += batch->local.count;
    if (batch->local.number == 0)
        feed->first_ns = feed->last_ns;
    else
        add_wait(batch->local.first_of_phase ? &feed->epochs : &feed->others, feed->last_ns - asked_ns);
    if (batch->local.first_of_phase && batch->local.epoch == wish->warming)
        feed->counted_ns = feed->last_ns;
    else if (batch->local.epoch >= wish->warming)
        feed->images += batch->local.count;
}

static void take_all(struct feed *feed, const struct wish *wish, struct ring *ring)
{
    struct batch *batch;
    for (uint64_t asked_ns = clock_now_ns(); ring_take(ring, &batch) == 0; asked_ns = clock_now_ns()) {
        count_batch(feed, wish, batch, asked_ns);
        ring_give_back(ring, batch);
        if (wish->pause_ms > 0)
            (void)usleep(wish->pause_ms * 1000);
    }
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median_ms(const struct waits *waits)
{
    qsort(waits->seconds, waits->count, sizeof(*waits->seconds), compare);
    return waits->count > 0 ? waits->seconds[waits->count / 2] * 1e3 : 0;
}

static void print(const struct feed *feed, const struct wish *wish, const struct dataset *dataset)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    const double time = (double)(feed->last_ns - feed->counted_ns) * 1e-9, rate = (double)feed->images / time;
    const double first = (double)(feed->first_ns - feed->begun_ns) * 1e-9;
    const double processor = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    printf("{\"images_per_second\": %.1f, \"images\": %" PRIu64 ", \"records\": %" PRIu64 ", \"batch\": %" PRIu32
           ", \"decode_threads\": %" PRIu32 ", \"cpu_us_per_image\": %.3f, \"sample_bytes_per_second\": %.0f, "
           "\"first_batch_seconds\": %.4f, \"before_first_batch_seconds\": %.4f, "
           "\"epoch_wait_ms\": %.3f, \"other_wait_ms\": %.3f}\n",
           rate, feed->images, dataset->record_count, wish->batch, wish->decoders,
           processor * 1e6 / (double)feed->taken, rate * (double)dataset->sample_bytes,
           first, first - wish->batch / rate, median_ms(&feed->epochs), median_ms(&feed->others));
}

static double *make_waits(uint64_t count)
{
    double *const seconds = calloc(count + 1, sizeof(*seconds));
    if (seconds == NULL)
        fail("out of memory");
    return seconds;
}

static void run(struct feed *feed, const struct wish *wish, const struct dataset *dataset)
{
    const struct augment augment = { .seed = 1, .crop = { [PHASE_TRAIN] = CROP_AUTO }, .filter = FILTER_BILINEAR,
                                     .flips = wish->flips, .changes_colour = wish->changes_colour,
                                     .policy = wish->is_trivial ? POLICY_TRIVIAL_AUGMENT_WIDE : POLICY_NONE };
    const struct schedule schedule = { .records = { [PHASE_TRAIN] = dataset->record_count }, .batch = wish->batch,
                                       .towers = 1, .epochs = wish->epochs, .steps = wish->steps, .lanes = wish->lanes };
    struct batch_layout layout;
    struct stop *stop = NULL;
    struct loader *loader = NULL;
    if (batch_layout_init(&layout, wish->side, wish->side, wish->channels, wish->batch) < 0 || stop_open(&stop) < 0)
        fail("out of memory");
    struct ring *const ring = open_ring(wish, &layout);
    const struct loader_spec spec = {
        .datasets = { [PHASE_TRAIN] = dataset }, .schedule = &schedule, .layout = &layout, .rings = &ring, .stop = stop,
        .shuffle = wish->shuffle, .seed = 1, .augment = &augment, .read_threads = wish->readers,
        .decode_threads = wish->decoders, .keep_bytes = wish->keep_bytes };
    feed->epochs.seconds = make_waits(schedule_batch_count(&schedule));
    feed->others.seconds = make_waits(schedule_batch_count(&schedule));
    if (loader_start(&loader, &spec) < 0)
        fail("the loader cannot be started");
    take_all(feed, wish, ring);
    loader_join(loader, NULL);
    if (stop_failed(stop))
        exit((int)stop_code(stop));
    loader_close(loader);
}

int main(int argc, char **argv)
{
    struct feed feed = { .begun_ns = clock_now_ns() };
    const struct wish wish = read_wish(argc, argv);
    struct dataset *const dataset = open_shards(&wish);
    run(&feed, &wish, dataset);
    print(&feed, &wish, dataset);
    dataset_close(dataset);
    return 0;
}
