/* The records of an index in memory: built while a data set is opened, then read by readers for every record. */
#include "loader/shards/shard_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/huge_pages.h"

#define GROUP SHARD_INDEX_GROUP
#define WORD_BITS 64u
#define LINE_LENGTHS 16u        /* lengths in a cache line */
#define RECORDS_ROOM_MIN 1024u
#define DAMAGES_ROOM_MIN 16u

static uint64_t groups_of(uint64_t records)
{
    return records / GROUP + (records % GROUP != 0);
}

/* ---- building ---- */

/* Move items to memory of another size. Large memory is in huge pages, as records are found in random order. Returns
 * NULL when out of memory; the items are unchanged then. */
static void *resize(void *items, uint64_t count, uint64_t room, size_t item_bytes)
{
    size_t room_bytes;
    if (__builtin_mul_overflow(room, item_bytes, &room_bytes))
        return NULL;
    if (room_bytes < HUGE_PAGE_BYTES)
        return realloc(items, room_bytes);
    void *const grown = huge_pages_alloc(room_bytes);
    if (grown == NULL)
        return NULL;
    if (count > 0)
        memcpy(grown, items, count * item_bytes);
    free(items);
    return grown;
}

int shard_index_reserve(struct shard_index *index, uint64_t records)
{
    const uint64_t count = index->record_count;
    if (records <= index->record_room)
        return 0;
    uint32_t *const lengths = resize(index->lengths, count, records, sizeof(*lengths));
    if (lengths == NULL)
        return -ENOMEM;
    index->lengths = lengths;
    uint64_t *const offsets = resize(index->offsets, groups_of(count), groups_of(records), sizeof(*offsets));
    if (offsets == NULL)
        return -ENOMEM;
    index->offsets = offsets;
    index->record_room = records;
    return 0;
}

int shard_index_add_record(struct shard_index *index, uint32_t payload_bytes)
{
    const uint64_t number = index->record_count;
    if (number == index->record_room &&
        shard_index_reserve(index, number > 0 ? 2 * number : RECORDS_ROOM_MIN) < 0)
        return -ENOMEM;
    if (number % GROUP == 0)
        index->offsets[number / GROUP] = index->end;
    index->lengths[number] = payload_bytes;
    index->end += payload_bytes + (uint64_t)TFRECORD_FRAME_BYTES;
    index->record_count++;
    return 0;
}

int shard_index_add_damage(struct shard_index *index, uint64_t bytes)
{
    const uint64_t count = index->gap_count, offset = index->end;
    if (count == 0 || (count >= DAMAGES_ROOM_MIN && (count & (count - 1)) == 0)) {
        struct shard_damage *const grown = realloc(index->damages, (count > 0 ? 2 * count : DAMAGES_ROOM_MIN) *
                                                   sizeof(*grown));
        if (grown == NULL)
            return -ENOMEM;
        index->damages = grown;
    }
    index->damages[count] = (struct shard_damage){ .offset = offset, .bytes = bytes,
                                                   .before_record = index->record_count, .unit_offset = offset,
                                                   .bad_offset = offset };
    index->damage_count = index->gap_count = count + 1;
    index->end += bytes;
    return 0;
}

void shard_index_trim(struct shard_index *index)
{
    const uint64_t count = index->record_count;
    uint32_t *const lengths = count > 0 ? realloc(index->lengths, count * sizeof(*lengths)) : NULL;
    uint64_t *const offsets = count > 0 ? realloc(index->offsets, groups_of(count) * sizeof(*offsets)) : NULL;
    index->lengths = lengths != NULL ? lengths : index->lengths;
    index->offsets = offsets != NULL ? offsets : index->offsets;
    index->record_room = lengths != NULL || offsets != NULL ? count : index->record_room;
}

/* ---- records that are left out ---- */

static bool is_kept(const struct shard_index *index, uint64_t number)
{
    return index->kept == NULL || (index->kept[number / WORD_BITS] >> number % WORD_BITS & 1);
}

int shard_index_keep(struct shard_index *index, bool (*is_wanted)(void *arg, uint64_t number), void *arg)
{
    const uint64_t all = index->record_count + index->left_out;
    uint64_t *const kept = calloc(all / WORD_BITS + 1, sizeof(*kept));
    uint64_t *const firsts = calloc(groups_of(index->record_count) + 1, sizeof(*firsts));
    uint64_t count = 0;
    if (kept == NULL || firsts == NULL) {
        free(kept);
        free(firsts);
        return -ENOMEM;
    }
    for (uint64_t number = 0; number < all; number++) {
        if (!is_kept(index, number) || !is_wanted(arg, number))
            continue;
        kept[number / WORD_BITS] |= UINT64_C(1) << number % WORD_BITS;
        if (count % GROUP == 0)
            firsts[count / GROUP] = number;
        count++;
    }
    free(index->kept);
    free(index->firsts);
    index->kept = kept;
    index->firsts = firsts;
    index->record_count = count;
    index->left_out = all - count;
    return 0;
}

/* The number of the first record >= `number` that is in the index after `passed` others that are. */
static uint64_t find_kept(const struct shard_index *index, uint64_t number, unsigned passed)
{
    uint64_t at = number / WORD_BITS;
    uint64_t word = index->kept[at] & ~UINT64_C(0) << number % WORD_BITS;
    for (unsigned count; (count = (unsigned)__builtin_popcountll(word)) <= passed; word = index->kept[++at])
        passed -= count;
    for (; passed > 0; passed--)
        word &= word - 1;
    return at * WORD_BITS + (unsigned)__builtin_ctzll(word);
}

uint64_t shard_index_number(const struct shard_index *index, uint64_t record)
{
    return index->kept == NULL ? record : find_kept(index, index->firsts[record / GROUP], (unsigned)(record % GROUP));
}

/* ---- finding records ---- */

/* The bytes of damages between the first record of the group and this record. */
static uint64_t gap_bytes(const struct shard_index *index, uint64_t first, uint64_t number)
{
    uint64_t low = 0, high = index->gap_count, bytes = 0;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (index->damages[middle].before_record <= first)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < index->gap_count && index->damages[low].before_record <= number; low++)
        bytes += index->damages[low].bytes;
    return bytes;
}

_Static_assert((uint64_t)(GROUP - 1) * TFRECORD_PAYLOAD_MAX <= UINT32_MAX, "a sum of lengths overflows");

struct shard_record shard_index_at(const struct shard_index *index, uint64_t number)
{
    const uint64_t first = number - number % GROUP;
    const uint32_t *const lengths = index->lengths + first;
    const uint32_t count = (uint32_t)(number - first);
    uint32_t payloads = 0;
    for (uint32_t i = 0; i < count; i++)
        payloads += lengths[i];
    uint64_t offset = index->offsets[number / GROUP] + payloads + (uint64_t)count * TFRECORD_FRAME_BYTES;
    if (index->gap_count > 0)
        offset += gap_bytes(index, first, number);
    return (struct shard_record){ .offset = offset, .number = number, .payload_bytes = index->lengths[number] };
}

struct shard_record shard_index_find(const struct shard_index *index, uint64_t record)
{
    return shard_index_at(index, shard_index_number(index, record));
}

void shard_index_advance(const struct shard_index *index, struct shard_record *record)
{
    const uint64_t next = record->number + 1;
    if (index->gap_count > 0 || !is_kept(index, next)) {
        *record = shard_index_at(index, index->kept == NULL ? next : find_kept(index, next, 0));
        return;
    }
    record->offset += record->payload_bytes + (uint64_t)TFRECORD_FRAME_BYTES;
    record->number = next;
    record->payload_bytes = index->lengths[next];
}

void shard_index_prefetch(const struct shard_index *index, uint64_t record)
{
    if (index->kept != NULL) {
        __builtin_prefetch(&index->firsts[record / GROUP]);
        return;
    }
    __builtin_prefetch(&index->offsets[record / GROUP]);
    for (uint64_t i = record - record % GROUP; i < record; i += LINE_LENGTHS)
        __builtin_prefetch(&index->lengths[i]);
    __builtin_prefetch(&index->lengths[record]);
}

uint32_t shard_index_longest(const struct shard_index *index)
{
    const uint64_t all = index->record_count + index->left_out;
    uint32_t longest = 0;
    for (uint64_t number = 0; number < all; number++)
        longest = index->lengths[number] > longest && is_kept(index, number) ? index->lengths[number] : longest;
    return longest;
}

void shard_index_release(struct shard_index *index)
{
    free(index->lengths);
    free(index->offsets);
    free(index->kept);
    free(index->firsts);
    free(index->damages);
    index->lengths = NULL;
    index->offsets = index->kept = index->firsts = NULL;
    index->damages = NULL;
    index->record_count = index->record_room = index->left_out = index->damage_count = index->gap_count = 0;
    index->end = 0;
}
