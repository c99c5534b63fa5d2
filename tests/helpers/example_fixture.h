/* Examples of one feature with any list, for tests. */
#ifndef PIPETRAIN_EXAMPLE_FIXTURE_H
#define PIPETRAIN_EXAMPLE_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"

#define EXAMPLE_FIXTURE_MAX 4096u

/* Write an Example with one feature, a list of this kind: packed numbers, or one bytes value. Returns its size, at most
 * EXAMPLE_FIXTURE_MAX. Several in sequence are one Example with all features. */
size_t example_fixture(const char *name, enum feature_kind kind, const void *run, size_t run_bytes, uint8_t *out);
/* The same with floats that are not packed. */
size_t example_fixture_unpacked(const char *name, const float *floats, size_t count, uint8_t *out);
/* The feature of this name, which must exist. */
struct feature example_fixture_find(const char *name, const uint8_t *payload, size_t bytes);

#endif
