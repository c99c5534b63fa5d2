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

static int look(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    struct walk *walk = arg;

    check_inside(walk, (const uint8_t *)name, name_bytes);
    if (feature->kind == FEATURE_BYTES && feature->value_count > 0)
        check_inside(walk, feature->bytes, feature->byte_count);
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
