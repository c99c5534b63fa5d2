/* Decoded samples kept in memory. Readers ask what is held, decoders put and get. */
#include "loader/sample_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t sample_cache_bytes(uint64_t count, size_t sample_bytes)
{
    size_t each, bytes;
    if (__builtin_add_overflow(sample_bytes, sizeof(int32_t) + 1, &each)
        || __builtin_mul_overflow(each, count, &bytes))
        return SIZE_MAX;
    return bytes;
}

int sample_cache_init(struct sample_cache *cache, uint64_t count, size_t sample_bytes)
{
    *cache = (struct sample_cache){ .sample_bytes = sample_bytes };
    cache->pixels = calloc(count, sample_bytes);
    cache->labels = calloc(count, sizeof *cache->labels);
    cache->states = calloc(count, sizeof *cache->states);
    if (cache->pixels && cache->labels && cache->states)
        return 0;
    sample_cache_release(cache);
    return -ENOMEM;
}

void sample_cache_release(struct sample_cache *cache)
{
    free(cache->pixels);
    free(cache->labels);
    free(cache->states);
    *cache = (struct sample_cache){ 0 };
}

bool sample_cache_holds(const struct sample_cache *cache, uint64_t id)
{
    return atomic_load_explicit(&cache->states[id], memory_order_acquire) == SAMPLE_HELD;
}

void sample_cache_get(const struct sample_cache *cache, uint64_t id, const struct record_target *target)
{
    memcpy(target->pixels, cache->pixels + id * cache->sample_bytes, cache->sample_bytes);
    *target->label = cache->labels[id];
}

void sample_cache_put(struct sample_cache *cache, uint64_t id, const struct record_target *target)
{
    uint8_t expected = SAMPLE_ABSENT;
    if (!atomic_compare_exchange_strong(&cache->states[id], &expected, SAMPLE_COMING))
        return;
    memcpy(cache->pixels + id * cache->sample_bytes, target->pixels, cache->sample_bytes);
    cache->labels[id] = *target->label;
    atomic_store_explicit(&cache->states[id], SAMPLE_HELD, memory_order_release);
}
