/* Examples of one feature. */
#include "tests/helpers/example_fixture.h"

#include <string.h>

#include "tests/helpers/test.h"

/* Put a field in front of the bytes at `body`: its tag and their length, two bytes of it, in the room before them. */
static uint8_t *wrap(uint8_t *body, uint8_t tag, size_t bytes)
{
    assert_true(bytes < 1u << 14);
    body -= 3;
    body[0] = tag;
    body[1] = (uint8_t)(bytes | 0x80);
    body[2] = (uint8_t)(bytes >> 7);
    return body;
}

/* Wrap the list at `list` and write it. */
static size_t finish(const char *name, enum feature_kind kind, uint8_t *list, const uint8_t *end, uint8_t *out)
{
    const size_t name_bytes = strlen(name);
    uint8_t *at = wrap(list, (uint8_t)(kind << 3 | 2), (size_t)(end - list));
    at = wrap(at, 0x12, (size_t)(end - at));
    at -= name_bytes;
    memcpy(at, name, name_bytes);
    at = wrap(at, 0x0a, name_bytes);
    at = wrap(at, 0x0a, (size_t)(end - at));
    at = wrap(at, 0x0a, (size_t)(end - at));
    assert_true((size_t)(end - at) <= EXAMPLE_FIXTURE_MAX);
    memcpy(out, at, (size_t)(end - at));
    return (size_t)(end - at);
}

size_t example_fixture(const char *name, enum feature_kind kind, const void *run, size_t run_bytes, uint8_t *out)
{
    uint8_t room[EXAMPLE_FIXTURE_MAX + 128], *const body = room + 128;
    assert_true(run_bytes <= EXAMPLE_FIXTURE_MAX);
    memcpy(body, run, run_bytes);
    return finish(name, kind, wrap(body, 0x0a, run_bytes), body + run_bytes, out);
}

size_t example_fixture_unpacked(const char *name, const float *floats, size_t count, uint8_t *out)
{
    uint8_t room[EXAMPLE_FIXTURE_MAX + 128], *end = room + 128;
    assert_true(5 * count <= EXAMPLE_FIXTURE_MAX);
    for (size_t i = 0; i < count; i++, end += 5) {
        end[0] = 0x0d;
        memcpy(end + 1, &floats[i], 4);
    }
    return finish(name, FEATURE_FLOATS, room + 128, end, out);
}

struct feature example_fixture_find(const char *name, const uint8_t *payload, size_t bytes)
{
    const size_t name_bytes = strlen(name);
    const struct example_query query = { &name, &name_bytes, 1 };
    struct feature feature;
    size_t bad;
    assert_int_equal(example_find(payload, bytes, &query, &feature, &bad), 0);
    return feature;
}
