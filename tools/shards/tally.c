/* Counting by open addressing. Called by the threads of a scan, each with a tally of its own, and by main. */
#include "tools/shards/tally.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define ROOM_MIN ((size_t)64)

static size_t place_of(const struct tally *tally, int64_t first, int64_t second)
{
    uint64_t hash = (uint64_t)first * 0x9e3779b97f4a7c15u ^ (uint64_t)second * 0xc2b2ae3d27d4eb4fu;
    hash ^= hash >> 32;
    return (size_t)(hash * 0x9e3779b97f4a7c15u >> 16) & (tally->room - 1);
}

/* The key's entry, or the free one where it belongs. */
static struct tally_entry *find(const struct tally *tally, int64_t first, int64_t second)
{
    size_t place = place_of(tally, first, second);
    for (;; place = (place + 1) & (tally->room - 1)) {
        struct tally_entry *const entry = &tally->entries[place];
        if (entry->count == 0 || (entry->first == first && entry->second == second))
            return entry;
    }
}

/* Room for one more key, so that a quarter stays free. */
static int grow(struct tally *tally)
{
    if (4 * (tally->count + 1) <= 3 * tally->room)
        return 0;
    struct tally grown = { .room = tally->room > 0 ? 2 * tally->room : ROOM_MIN };
    grown.entries = calloc(grown.room, sizeof(*grown.entries));
    if (grown.entries == NULL)
        return -ENOMEM;
    grown.count = tally->count;
    for (size_t i = 0; i < tally->room; i++)
        if (tally->entries[i].count > 0)
            *find(&grown, tally->entries[i].first, tally->entries[i].second) = tally->entries[i];
    free(tally->entries);
    *tally = grown;
    return 0;
}

int tally_add(struct tally *tally, int64_t first, int64_t second, uint64_t count)
{
    if (grow(tally) < 0)
        return -ENOMEM;
    struct tally_entry *const entry = find(tally, first, second);
    tally->count += entry->count == 0;
    *entry = (struct tally_entry){ first, second, entry->count + count };
    return 0;
}

int tally_merge(struct tally *tally, const struct tally *other)
{
    int rc = 0;
    for (size_t i = 0; i < other->room && rc == 0; i++) {
        const struct tally_entry *const entry = &other->entries[i];
        if (entry->count > 0)
            rc = tally_add(tally, entry->first, entry->second, entry->count);
    }
    return rc;
}

void tally_sort(struct tally *tally, int (*compare)(const void *a, const void *b))
{
    size_t kept = 0;
    for (size_t i = 0; i < tally->room; i++)
        if (tally->entries[i].count > 0)
            tally->entries[kept++] = tally->entries[i];
    if (kept > 0)
        qsort(tally->entries, kept, sizeof(*tally->entries), compare);
}

int tally_by_key(const void *a, const void *b)
{
    const struct tally_entry *const left = a, *const right = b;
    const int order = (left->first > right->first) - (left->first < right->first);
    return order != 0 ? order : (left->second > right->second) - (left->second < right->second);
}

int tally_by_count(const void *a, const void *b)
{
    const struct tally_entry *const left = a, *const right = b;
    const int order = (left->count < right->count) - (left->count > right->count);
    return order != 0 ? order : tally_by_key(a, b);
}

void tally_release(struct tally *tally)
{
    free(tally->entries);
    *tally = (struct tally){ 0 };
}
