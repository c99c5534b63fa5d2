/* The features a sample is read from, and the names that data sets in use give them. */
#ifndef PIPETRAIN_SAMPLE_KEY_H
#define PIPETRAIN_SAMPLE_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"

/* The last three may be missing in records. */
enum sample_key { SAMPLE_IMAGE, SAMPLE_LABEL, SAMPLE_HEIGHT, SAMPLE_WIDTH, SAMPLE_DEPTH, SAMPLE_KEY_COUNT };

/* The names of each in the order they are tried, NULL behind the last. Those of the sizes begin with the ones that go
 * with a plain image and with an image/..., in this order. */
#define SAMPLE_KEY_NAMES 6u
extern const char *const sample_key_names[SAMPLE_KEY_COUNT][SAMPLE_KEY_NAMES];

/* The first of `names`, which end with NULL, that the payload has: it and its feature, or NULL. 0, or -EBADMSG with
 * *bad_offset_out where the payload is no tf.train.Example. */
int sample_key_find(const char *const *names, const uint8_t *payload, size_t bytes, const char **name_out,
                    struct feature *feature_out, size_t *bad_offset_out);

#endif
