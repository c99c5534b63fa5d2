/* How often what occurs: keys of two numbers and their counts, in a hash table that grows. */
#ifndef PIPETRAIN_TALLY_H
#define PIPETRAIN_TALLY_H

#include <stddef.h>
#include <stdint.h>

struct tally_entry {
    int64_t first, second;      /* the key */
    uint64_t count;             /* > 0 */
};

/* Filled with zeros to begin with. One thread at a time. */
struct tally {
    struct tally_entry *entries;        /* owned; those with a count of 0 are free, until tally_sort */
    size_t count;                       /* different keys */
    size_t room;                        /* a power of two */
};

/* Count a key so many times more. 0 or -ENOMEM. */
int tally_add(struct tally *tally, int64_t first, int64_t second, uint64_t count);
/* Count all of another tally as well. 0 or -ENOMEM. */
int tally_merge(struct tally *tally, const struct tally *other);
/* Put the `count` entries one behind the other in the order of the function. Nothing is added any more. */
void tally_sort(struct tally *tally, int (*compare)(const void *a, const void *b));
/* Orders for tally_sort: by key, and by count, largest first, where equal by key. */
int tally_by_key(const void *a, const void *b);
int tally_by_count(const void *a, const void *b);
void tally_release(struct tally *tally);

#endif
