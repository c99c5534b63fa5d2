/* Splits or classes, from the names of sibling folders. Pure; called by the main thread of the converter. */
#include "tools/convert/siblings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BIT(split) (1u << (split))

/* Common properties of the siblings with images. A name is "whole" if it means a split and contains nothing else. */
struct census {
    size_t count, named;        /* count: siblings with images; named: those of them whose names mean a split */
    unsigned splits;            /* splits that occur in the names */
    unsigned whole;             /* splits that occur in whole names */
    /* splits that occur in the largest group of names with the same rest, such as seg_train, seg_test */
    unsigned family;
    size_t family_count;
    bool is_whole, is_part;     /* of the named siblings: all names are whole; none is whole */
    bool has_folders;           /* all named siblings contain folders */
};

static unsigned bits(unsigned set)
{
    return (unsigned)__builtin_popcount(set);
}

/* Does the name mean a validation set only beside a training set? {valid, invalid} are classes. */
static bool is_weak(const struct sibling *sibling)
{
    static const char *const words[] = { "valid", "dev", "eval", "evaluation" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == sibling->bytes && strncasecmp(words[i], sibling->name, sibling->bytes) == 0)
            return true;
    return false;
}

/* The split that a name means. Weak names count only beside a training set. */
static struct split_name name_of(const struct sibling *sibling, bool has_train)
{
    struct split_name name = split_name_read(sibling->name, sibling->bytes);
    if (name.split == SPLIT_VALIDATION && !has_train && is_weak(sibling))
        name.split = SPLIT_UNSAID;
    return name;
}

static bool is_unlabelled(const struct sibling *sibling)
{
    return split_name_read(sibling->name, sibling->bytes).split == SPLIT_UNLABELLED;
}

static bool counts(const struct sibling *sibling)
{
    return sibling->has_images && !is_unlabelled(sibling);
}

static bool has_train(const struct sibling *siblings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (counts(&siblings[i]) && split_name_read(siblings[i].name, siblings[i].bytes).split == SPLIT_TRAIN)
            return true;
    return false;
}

/* The splits of all names with this rest, and the number of these names. */
static unsigned family_of(const struct sibling *siblings, size_t count, const char *rest, bool trains,
                          size_t *family_count)
{
    unsigned splits = 0;
    *family_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct split_name name = name_of(&siblings[i], trains);
        if (!counts(&siblings[i]) || name.split == SPLIT_UNSAID || strcmp(name.rest, rest) != 0)
            continue;
        splits |= BIT(name.split);
        (*family_count)++;
    }
    return splits;
}

static void note_family(struct census *census, unsigned splits, size_t family_count)
{
    if (bits(splits) < bits(census->family) || (bits(splits) == bits(census->family) &&
                                                family_count <= census->family_count))
        return;
    census->family = splits;
    census->family_count = family_count;
}

static struct census take_census(const struct sibling *siblings, size_t count, bool trains)
{
    struct census census = { .is_whole = true, .is_part = true, .has_folders = true };
    for (size_t i = 0; i < count; i++) {
        const struct split_name name = name_of(&siblings[i], trains);
        census.count += counts(&siblings[i]);
        if (!counts(&siblings[i]) || name.split == SPLIT_UNSAID)
            continue;
        census.named++;
        census.splits |= BIT(name.split);
        census.whole |= name.is_whole ? BIT(name.split) : 0;
        census.is_whole &= name.is_whole;
        census.is_part &= !name.is_whole;
        census.has_folders &= siblings[i].has_folders;
        size_t family_count;
        const unsigned family = family_of(siblings, count, name.rest, trains, &family_count);
        note_family(&census, family, family_count);
    }
    return census;
}

/* The meaning of the siblings if all of their names mean splits. */
static enum siblings_meaning read_named(const struct census *census)
{
    const bool trains = (census->splits & BIT(SPLIT_TRAIN)) != 0;
    const bool are_alike = census->is_whole || (census->count > 1 && census->has_folders) ||
                           (bits(census->family) > 1 && census->family_count == census->named);
    if (are_alike)
        return trains ? SIBLINGS_SPLITS : SIBLINGS_NO_TRAIN;
    const bool are_mixed = bits(census->splits) > 1 && (!census->is_part || bits(census->family) > 1);
    return are_mixed ? SIBLINGS_UNCLEAR : SIBLINGS_CLASSES;
}

/* Does this name among others certainly mean a split? "train" may be the vehicle, and "test" one of two classes. */
static bool is_certain(const struct sibling *sibling, const struct split_name *name, size_t strangers)
{
    if (!name->is_whole)
        return false;
    return sibling->has_folders || (strangers > 1 && !(name->split == SPLIT_TRAIN && name->is_bare));
}

static bool has_certain(const struct sibling *siblings, size_t count, size_t strangers, bool trains)
{
    for (size_t i = 0; i < count; i++) {
        const struct split_name name = name_of(&siblings[i], trains);
        if (counts(&siblings[i]) && name.split != SPLIT_UNSAID && is_certain(&siblings[i], &name, strangers))
            return true;
    }
    return false;
}

/* The first sibling whose name means a split or, with is_named false, means none. If `rest` is not NULL, only names
 * with another rest count. */
static size_t find_first(const struct sibling *siblings, size_t count, bool is_named, const char *rest, bool trains)
{
    for (size_t i = 0; i < count; i++) {
        const struct split_name name = name_of(&siblings[i], trains);
        if (counts(&siblings[i]) && (name.split != SPLIT_UNSAID) == is_named &&
            (rest == NULL || strcmp(rest, name.rest) != 0))
            return i;
    }
    return 0;
}

/* Do all training sets contain folders, but the siblings without the name of a split do not? Then the latter are no
 * classes, but additional pictures. */
static bool are_aside(const struct sibling *siblings, size_t count, bool trains)
{
    for (size_t i = 0; i < count; i++) {
        const enum split split = name_of(&siblings[i], trains).split;
        if (counts(&siblings[i]) && (split == SPLIT_UNSAID || split == SPLIT_TRAIN) &&
            siblings[i].has_folders != (split == SPLIT_TRAIN))
            return false;
    }
    return trains;
}

struct siblings_reading siblings_read(const struct sibling *siblings, size_t count)
{
    const bool trains = has_train(siblings, count);
    const struct census census = take_census(siblings, count, trains);
    const size_t strangers = census.count - census.named;
    struct siblings_reading reading = { .meaning = SIBLINGS_CLASSES, .splits = census.splits };

    if (census.named == 0)
        return reading;
    reading.named = find_first(siblings, count, true, NULL, trains);
    if (strangers > 0) {
        reading.other = find_first(siblings, count, false, NULL, trains);
        if (bits(census.whole) > 1 && are_aside(siblings, count, trains))
            reading.meaning = SIBLINGS_SPLITS;
        else if (bits(census.family) > 1 || bits(census.whole) > 1 || has_certain(siblings, count, strangers, trains))
            reading.meaning = SIBLINGS_STRANGER;
        return reading;
    }
    const struct split_name name = name_of(&siblings[reading.named], trains);
    reading.other = find_first(siblings, count, true, name.rest, trains);
    reading.meaning = read_named(&census);
    return reading;
}

static int compare_held(const void *a, const void *b)
{
    const struct held *const left = a, *const right = b;
    const int order = memcmp(left->name, right->name, left->bytes < right->bytes ? left->bytes : right->bytes);
    return order != 0 ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* Does the folder divide a class into years, dates, parts or splits? Such names occur in every class. "0" and "1" do
 * not count, because they may be classes. */
static bool divides_classes(const struct held *held)
{
    static const char *const words[] = { "part", "shard", "chunk", "batch" };
    const char *const name = held->name;
    const struct split_name split = split_name_read(name, held->bytes);
    if (split.is_whole && (split.split == SPLIT_VALIDATION || split.split == SPLIT_TEST))
        return true;
    if (held->bytes >= 4 && (memcmp(name, "19", 2) == 0 || memcmp(name, "20", 2) == 0) &&
        strspn(name, "0123456789-_.") >= held->bytes && name[2] >= '0' && name[3] >= '0')
        return held->bytes == 4 || held->bytes >= 7;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t bytes = strlen(words[i]);
        if (held->bytes > bytes && strncasecmp(name, words[i], bytes) == 0 &&
            bytes + strspn(name + bytes, "0123456789-_. ") >= held->bytes)
            return true;
    }
    return false;
}

bool siblings_hold_the_same(struct held *list, size_t count, size_t holders, struct held *first_out,
                            struct held *second_out)
{
    size_t kept = 0, names = 0, shared = 0;
    for (size_t i = 0; i < count; i++)
        if (!divides_classes(&list[i]))
            list[kept++] = list[i];
    if (kept > 0)
        qsort(list, kept, sizeof(*list), compare_held);
    for (size_t i = 0; i < kept; i++) {
        const bool is_again = i > 0 && compare_held(&list[i - 1], &list[i]) == 0;
        names += !is_again;
        if (is_again || i + 1 == kept || compare_held(&list[i], &list[i + 1]) != 0)
            continue;
        if (shared < 2)
            *(shared == 0 ? first_out : second_out) = list[i];
        shared++;
    }
    /* True if more than half of the names' possible repetitions in other siblings occur. */
    return shared > 1 && 2 * (kept - names) > names * (holders - 1);
}
