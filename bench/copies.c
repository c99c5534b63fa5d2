/* The rate at which samples in memory can be copied in any order into a ring of batches: what a loader of raw pixels in
 * memory could give at most.  make bench/copies && bench/copies SIDE SAMPLES THREADS COPIES; prints a line of JSON. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/random.h"

enum { CHANNELS = 3, RING_SAMPLES = 4 * 128, THREADS_MAX = 256 };

struct copying {
    uint8_t *samples, *ring;
    size_t sample_bytes;
    uint32_t sample_count, thread_count, copy_count;
};

struct copier {
    const struct copying *copying;
    pthread_t thread;
    uint32_t number;
};

static void *copy_some(void *arg)
{
    const struct copier *const copier = arg;
    const struct copying *const copying = copier->copying;
    const struct random_key key = random_key(1, RANDOM_AUGMENT, 0);
    for (uint32_t i = copier->number; i < copying->copy_count; i += copying->thread_count) {
        uint32_t words[4] = { i };
        random_mix(key, words);
        const size_t from = (size_t)((uint64_t)words[0] * copying->sample_count >> 32);
        memcpy(copying->ring + i % RING_SAMPLES * copying->sample_bytes,
               copying->samples + from * copying->sample_bytes, copying->sample_bytes);
    }
    return NULL;
}

static void copy_all(const struct copying *copying)
{
    struct copier copiers[THREADS_MAX];
    for (uint32_t i = 0; i < copying->thread_count; i++) {
        copiers[i] = (struct copier){ .copying = copying, .number = i };
        if (pthread_create(&copiers[i].thread, NULL, copy_some, &copiers[i]) != 0)
            exit(4);
    }
    for (uint32_t i = 0; i < copying->thread_count; i++)
        (void)pthread_join(copiers[i].thread, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        (void)fputs("usage: copies SIDE SAMPLES THREADS COPIES\n", stderr);
        return 2;
    }
    const size_t side = (size_t)atoi(argv[1]);
    struct copying copying = { .sample_bytes = side * side * CHANNELS, .sample_count = (uint32_t)atoi(argv[2]),
                               .thread_count = (uint32_t)atoi(argv[3]), .copy_count = (uint32_t)atoi(argv[4]) };
    copying.samples = malloc(copying.sample_bytes * copying.sample_count);
    copying.ring = malloc(copying.sample_bytes * RING_SAMPLES);
    if (copying.samples == NULL || copying.ring == NULL || copying.thread_count > THREADS_MAX)
        return 4;
    memset(copying.samples, 1, copying.sample_bytes * copying.sample_count);
    memset(copying.ring, 1, copying.sample_bytes * RING_SAMPLES);
    const uint64_t begun_ns = clock_now_ns();
    copy_all(&copying);
    const double seconds = (double)(clock_now_ns() - begun_ns) * 1e-9;
    printf("{\"images_per_second\": %.1f, \"sample_bytes_per_second\": %.0f}\n", copying.copy_count / seconds,
           (double)copying.copy_count * (double)copying.sample_bytes / seconds);
    free(copying.samples);
    free(copying.ring);
    return 0;
}
