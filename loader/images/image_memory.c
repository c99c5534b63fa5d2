/* The memory budget of large images. Called by decoders for every large image. */
#include "loader/images/image_memory.h"

#include <errno.h>
#include <pthread.h>

/* The worst case is a JPEG of four colours with several scans: two bytes of coefficients and one byte of pixels for
 * each colour of a pixel, with sides rounded up to blocks of at most 32 pixels. */
#define COLOURS 4u
#define COEFFICIENT_BYTES 2u
#define BLOCK_SIDE 32u
#define MIB ((size_t)1 << 20)
#define SIDES_MAX ((uint64_t)131072)    /* sum of height and width */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct image_limits limits;
    size_t reserved;
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER,
             .limits = { IMAGE_PIXELS_MAX, SIZE_MAX } };

static _Thread_local uint64_t thread_pixels;     /* 0: memory.limits.pixels */

void image_memory_limit(struct image_limits limits)
{
    memory.limits = limits;
}

void image_memory_limit_thread(uint64_t pixels)
{
    thread_pixels = pixels;
}

uint64_t image_memory_pixels(void)
{
    return thread_pixels > 0 ? thread_pixels : memory.limits.pixels;
}

size_t image_memory_need(uint64_t pixels)
{
    const uint64_t sides = pixels < SIDES_MAX ? pixels + 1 : SIDES_MAX;
    return (size_t)(COLOURS * (pixels + COEFFICIENT_BYTES * (pixels + BLOCK_SIDE * sides)));
}

int image_memory_take(size_t bytes, struct text *problem)
{
    pthread_mutex_lock(&memory.lock);
    const size_t all = memory.limits.bytes;
    while (bytes <= all && memory.reserved + bytes > all)
        pthread_cond_wait(&memory.freed, &memory.lock);
    if (bytes <= all)
        memory.reserved += bytes;
    pthread_mutex_unlock(&memory.lock);
    if (bytes <= all)
        return 0;
    text_add(problem, "that takes %zu MiB, and decoders of large images may take %zu MiB together: raise "
             "input.ram_budget, or add memory", (bytes + MIB - 1) / MIB, all / MIB);
    return -ENOMEM;
}

void image_memory_give_back(size_t bytes)
{
    pthread_mutex_lock(&memory.lock);
    memory.reserved -= bytes;
    pthread_cond_broadcast(&memory.freed);
    pthread_mutex_unlock(&memory.lock);
}
