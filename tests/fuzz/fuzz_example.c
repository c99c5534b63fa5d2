/* Fuzz target of the tf.train.Example walk: any bytes as a payload. Finding and visiting must
 * agree, and whatever they give must lie inside the payload. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    /* image and label as writers lay them out */
    SEED("\012\047\012\025\012\011\151\155\141\147\145\137\162\141\167\022\010\012\006\012\004\000\001\002"
         "\003\012\016\012\005\154\141\142\145\154\022\005\032\003\012\001\007"),
    /* packed, unpacked and joined */
    SEED("\012\025\012\023\012\005\154\141\142\145\154\022\012\032\010\010\011\012\002\005\006\010\007"),
    /* floats of both encodings */
    SEED("\012\023\012\021\012\001\146\022\014\022\012\012\010\000\000\200\077\000\000\040\300\012\023\012"
         "\021\012\001\146\022\014\022\012\015\000\000\200\077\015\000\000\040\300"),
    /* unknown fields, the value before the name */
    SEED("\030\005\012\031\012\027\041\001\002\003\004\005\006\007\010\022\005\032\003\012\001\007\012\005"
         "\154\141\142\145\154"),
    { NULL, 0 },
};

struct walk {
    const uint8_t *data;
    size_t bytes;
    struct feature last;        /* of the name "label" */
};

static void check_inside(const struct walk *walk, const uint8_t *at, size_t bytes)
{
    if (at < walk->data || bytes > walk->bytes || (size_t)(at - walk->data) > walk->bytes - bytes)
        abort();
}

/* The values of one feature, as they are visited. */
struct count {
    const struct walk *walk;
    uint64_t values;
};

static void count_bytes(void *arg, const uint8_t *value, size_t bytes)
{
    struct count *const count = arg;
    check_inside(count->walk, value, bytes);
    count->values++;
}

static void count_floats(void *arg, const uint8_t *run, size_t floats)
{
    struct count *const count = arg;
    check_inside(count->walk, run, 4 * floats);
    count->values += floats;
}

static void count_int64(void *arg, int64_t value)
{
    struct count *const count = arg;
    (void)value;
    count->values++;
}

static void check_values(const struct walk *walk, const struct feature *feature)
{
    struct count count = { walk, 0 };
    const struct value_visitor visitor = { count_bytes, count_floats, count_int64, &count };
    if (feature->kind == FEATURE_MISSING)
        return;
    feature_visit(feature, &visitor);
    if (count.values != feature->value_count)
        abort();
}

static int look(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    struct walk *walk = arg;

    check_inside(walk, (const uint8_t *)name, name_bytes);
    if (feature->kind == FEATURE_BYTES && feature->value_count > 0)
        check_inside(walk, feature->bytes, feature->byte_count);
    check_values(walk, feature);
    if (name_bytes == 5 && memcmp(name, "label", 5) == 0)
        walk->last = *feature;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = { "label" };
    static const size_t name_bytes[] = { 5 };
    const struct example_query query = { names, name_bytes, 1 };
    struct walk walk = { .data = data, .bytes = bytes };
    struct feature found;
    size_t bad_find = 0, bad_visit = 0;

    const int find_rc = example_find(data, bytes, &query, &found, &bad_find);
    const int visit_rc = example_visit(data, bytes, look, &walk, &bad_visit);
    if (find_rc != visit_rc || bad_find != bad_visit || bad_find > bytes)
        abort();
    if (found.kind != walk.last.kind || found.value_count != walk.last.value_count ||
        found.int64 != walk.last.int64 || found.bytes != walk.last.bytes)
        abort();
    return 0;
}
