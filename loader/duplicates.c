/* Finds records of one data set in another one, or again in the same, by hashes of their images or by their lengths and
 * stored checksums. Called from main's thread. */
#include "loader/duplicates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "loader/record.h"

#define SAMPLE_MAX UINT64_C(10000)      /* records of a larger data set that are searched for, a sample */
#define CHECKSUMS_MAX UINT64_C(500000)  /* records of the other data set whose checksums are read, each with a small
                                         * read */
#define COMPARED_MAX 100u       /* further records of equal length and checksum count as equal without a comparison */

/* A record's id and what it is recognised by: the hash of its image, or its length and checksum. */
struct mark { uint64_t high, low, id; };

struct marks { struct mark *items; uint64_t count; };

struct search {
    const struct dataset *sets[2];      /* the data set whose records are searched for; the other data set */
    struct decode_context *contexts[2];
    bool are_images;
    uint32_t compared;
};

static int mark_compare(const void *a, const void *b)
{
    const struct mark *const left = a, *const right = b;
    if (left->high != right->high)
        return left->high < right->high ? -1 : 1;
    return (left->low > right->low) - (left->low < right->low);
}

/* Mark a record by the hash of its image, whose feature may have another name in the other data set. False if it cannot
 * be read. */
static bool mark_image(struct search *search, int set, uint64_t id, struct mark *mark_out)
{
    const struct dataset *const dataset = search->sets[set];
    const char *const names[] = { dataset->format.keys[SAMPLE_IMAGE], NULL };
    struct record_problem problem;
    struct feature feature;
    const char *name;
    uint64_t bytes;
    size_t bad_offset;
    const uint8_t *const payload = record_payload(search->contexts[set], id, &bytes, &problem);
    if (payload == NULL || sample_key_find(names, payload, bytes, &name, &feature, &bad_offset) < 0 || name == NULL)
        return false;
    const bool is_bytes = feature.kind == FEATURE_BYTES;
    const XXH128_hash_t hash = XXH3_128bits(is_bytes ? feature.bytes : feature.entry,
                                            is_bytes ? feature.byte_count : feature.entry_bytes);
    *mark_out = (struct mark){ hash.high64, hash.low64, id };
    return true;
}

/* Mark a record by its length and stored checksum. */
static bool mark_checksum(struct search *search, int set, uint64_t id, struct mark *mark_out)
{
    const struct dataset *const dataset = search->sets[set];
    const struct dataset_place place = dataset_find(dataset, id);
    uint8_t crc[4];
    const uint64_t at = place.offset + TFRECORD_HEADER_BYTES + place.payload_bytes;
    if (dataset->sources[place.shard] == NULL ||
        shard_source_read(dataset->sources[place.shard], crc, sizeof(crc), at) != (ssize_t)sizeof(crc))
        return false;
    *mark_out = (struct mark){ place.payload_bytes,
                               (uint64_t)crc[0] | (uint64_t)crc[1] << 8 | (uint64_t)crc[2] << 16 |
                                   (uint64_t)crc[3] << 24,
                               id };
    return true;
}

static bool make_mark(struct search *search, int set, uint64_t id, struct mark *mark_out)
{
    return search->are_images ? mark_image(search, set, id, mark_out) : mark_checksum(search, set, id, mark_out);
}

/* Mark all records of the first data set, or a sample of them, and sort the marks. */
static int mark_all(struct search *search, struct marks *marks)
{
    const uint64_t records = search->sets[0]->record_count;
    const uint64_t count = search->are_images || records < SAMPLE_MAX ? records : SAMPLE_MAX;
    marks->items = calloc(count + 1, sizeof(*marks->items));
    if (marks->items == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t id = (uint64_t)((__uint128_t)records * i / count);
        if (dataset_is_unwanted(search->sets[0]))
            return -ECANCELED;
        marks->count += make_mark(search, 0, id, &marks->items[marks->count]);
    }
    qsort(marks->items, marks->count, sizeof(*marks->items), mark_compare);
    return 0;
}

/* Binary search: the first mark that is not less than `mark`. */
static uint64_t find_mark(const struct marks *marks, const struct mark *mark)
{
    uint64_t low = 0, high = marks->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (mark_compare(&marks->items[middle], mark) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_length(const struct marks *marks, uint64_t bytes)
{
    const uint64_t at = find_mark(marks, &(struct mark){ .high = bytes });
    return at < marks->count && marks->items[at].high == bytes;
}

/* Are the records equal? Records with equal marks very likely are; the first COMPARED_MAX pairs are compared. */
static bool are_equal(struct search *search, uint64_t id, uint64_t other_id)
{
    struct record_problem problem;
    uint64_t bytes, other_bytes;
    if (search->are_images || search->compared++ >= COMPARED_MAX)
        return true;
    const uint8_t *const payload = record_payload(search->contexts[0], id, &bytes, &problem);
    const uint8_t *const other = record_payload(search->contexts[1], other_id, &other_bytes, &problem);
    return payload != NULL && other != NULL && bytes == other_bytes && memcmp(payload, other, bytes) == 0;
}

static bool read_label(struct search *search, int set, uint64_t id, int64_t *label_out)
{
    struct record_problem problem;
    struct sample_label label;
    uint64_t bytes;
    const uint8_t *const payload = record_payload(search->contexts[set], id, &bytes, &problem);
    if (payload == NULL || sample_read_label(&search->sets[set]->format, payload, bytes, &label, problem.text,
                                             sizeof(problem.text)) < 0)
        return false;
    *label_out = label.stored;
    return true;
}

/* Count a pair of equal images if their labels differ. */
static void compare_pair(struct search *search, uint64_t id, uint64_t other_id, struct duplicates *duplicates)
{
    int64_t label, other;
    if (!search->are_images || !read_label(search, 0, id, &label) || !read_label(search, 1, other_id, &other) ||
        label == other || (duplicates->relabelled++ > 0 && id > duplicates->relabelled_first))
        return;
    duplicates->relabelled_first = id;
    duplicates->relabelled_other = other_id;
    duplicates->first_label = label;
    duplicates->other_label = other;
}

enum counted { COUNTED_NOT, COUNTED, COUNTED_WITH_ALL_ITS_LIKES };

/* Count the records that equal a record of the other data set, each once. Of a group of equal marks the first one
 * stores whether all of the group are counted, so that many copies of one record do not cost a search each. */
static void count_likes(struct search *search, struct marks *marks, enum counted *counted, const struct mark *mark,
                        struct duplicates *duplicates)
{
    const uint64_t first = find_mark(marks, mark);
    bool are_all_counted = true;
    if (first < marks->count && counted[first] == COUNTED_WITH_ALL_ITS_LIKES)
        return;
    for (uint64_t at = first; at < marks->count && mark_compare(&marks->items[at], mark) == 0; at++) {
        const uint64_t own = marks->items[at].id;
        if (counted[at] == COUNTED_NOT && are_equal(search, own, mark->id)) {
            counted[at] = COUNTED;
            compare_pair(search, own, mark->id, duplicates);
            if (duplicates->count++ == 0 || own <= duplicates->first) {
                duplicates->first = own;
                duplicates->other = mark->id;
            }
        }
        are_all_counted = are_all_counted && counted[at] != COUNTED_NOT;
    }
    if (first < marks->count && are_all_counted && mark_compare(&marks->items[first], mark) == 0)
        counted[first] = COUNTED_WITH_ALL_ITS_LIKES;
}

static int look_at_other(struct search *search, struct marks *marks, struct duplicates *duplicates)
{
    const struct dataset *const other = search->sets[1];
    enum counted *const counted = calloc(marks->count + 1, sizeof(*counted));
    uint64_t reads = 0;
    int rc = counted != NULL ? 0 : -ENOMEM;
    for (uint64_t id = 0; id < other->record_count && rc == 0; id++) {
        struct mark mark;
        if (dataset_is_unwanted(other))
            rc = -ECANCELED;
        if (!search->are_images && reads == CHECKSUMS_MAX)
            break;
        duplicates->among++;
        if (!search->are_images && !has_length(marks, dataset_find(other, id).payload_bytes))
            continue;
        reads++;
        if (make_mark(search, 1, id, &mark))
            count_likes(search, marks, counted, &mark, duplicates);
    }
    free(counted);
    return rc;
}

static uint64_t stream_bytes(const struct dataset *dataset)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        bytes += dataset->indexes[i].bytes;
    return bytes;
}

static int look(struct search *search, struct duplicates *duplicates)
{
    struct marks marks = { NULL, 0 };
    int rc = decode_context_open(&search->contexts[0], search->sets[0]);
    if (rc == 0)
        rc = decode_context_open(&search->contexts[1], search->sets[1]);
    if (rc == 0)
        rc = mark_all(search, &marks);
    duplicates->looked_at = marks.count;
    if (rc == 0)
        rc = look_at_other(search, &marks, duplicates);
    free(marks.items);
    decode_context_close(search->contexts[0]);
    decode_context_close(search->contexts[1]);
    return rc;
}

uint64_t duplicates_bytes(const struct dataset *dataset, const struct dataset *other)
{
    return stream_bytes(dataset) + stream_bytes(other);
}

int duplicates_find(struct duplicates *duplicates_out, const struct dataset *dataset, const struct dataset *other,
                    uint64_t read_max)
{
    struct search search = { .sets = { dataset, other } };
    *duplicates_out = (struct duplicates){ 0 };
    search.are_images = duplicates_bytes(dataset, other) <= read_max &&
                        dataset->format.keys[SAMPLE_IMAGE] != NULL && other->format.keys[SAMPLE_IMAGE] != NULL;
    duplicates_out->are_images = search.are_images;
    if (!search.are_images && (!dataset_is_plain(dataset) || !dataset_is_plain(other)))
        return 0;
    return look(&search, duplicates_out);
}

/* ---- images with two labels ---- */

static int mark_and_id_compare(const void *a, const void *b)
{
    const struct mark *const left = a, *const right = b;
    const int order = mark_compare(left, right);
    return order != 0 ? order : (left->id > right->id) - (left->id < right->id);
}

/* Count the images of items[first, end), which are equal and in the order of their ids, whose label is not that of the
 * first one. */
static void count_conflicts(struct search *search, const struct mark *items, uint64_t first, uint64_t end,
                            struct label_conflicts *conflicts)
{
    int64_t expected, label;
    if (!read_label(search, 0, items[first].id, &expected))
        return;
    for (uint64_t i = first + 1; i < end; i++) {
        if (!read_label(search, 0, items[i].id, &label) || label == expected)
            continue;
        if (conflicts->count++ == 0 || items[i].id < conflicts->first) {
            conflicts->first = items[i].id;
            conflicts->other = items[first].id;
            conflicts->first_label = label;
            conflicts->other_label = expected;
        }
    }
}

static int compare_labels(struct search *search, const struct marks *marks, struct label_conflicts *conflicts)
{
    for (uint64_t first = 0, end; first < marks->count; first = end) {
        if (dataset_is_unwanted(search->sets[0]))
            return -ECANCELED;
        end = first + 1;
        while (end < marks->count && mark_compare(&marks->items[first], &marks->items[end]) == 0)
            end++;
        if (end > first + 1)
            count_conflicts(search, marks->items, first, end, conflicts);
    }
    return 0;
}

int label_conflicts_find(struct label_conflicts *conflicts_out, const struct dataset *dataset, uint64_t read_max)
{
    struct search search = { .sets = { dataset, NULL }, .are_images = true };
    struct marks marks = { NULL, 0 };
    *conflicts_out = (struct label_conflicts){ 0 };
    if (stream_bytes(dataset) > read_max || dataset->format.keys[SAMPLE_IMAGE] == NULL)
        return 0;
    int rc = decode_context_open(&search.contexts[0], dataset);
    if (rc == 0)
        rc = mark_all(&search, &marks);
    if (rc == 0 && marks.count > 0) {
        qsort(marks.items, marks.count, sizeof(*marks.items), mark_and_id_compare);
        conflicts_out->looked_at = marks.count;
        rc = compare_labels(&search, &marks, conflicts_out);
    }
    free(marks.items);
    decode_context_close(search.contexts[0]);
    return rc;
}
