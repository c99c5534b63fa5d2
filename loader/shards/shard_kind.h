/* What a file that is no TFRecord shard seems to be, from its first bytes. */
#ifndef PIPETRAIN_SHARD_KIND_H
#define PIPETRAIN_SHARD_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes shard_kind_text looks at. */
#define SHARD_KIND_BYTES 512u

/* A phrase such as "it is compressed with gzip: ...", or NULL when nothing is recognised. */
const char *shard_kind_text(const uint8_t *head, size_t bytes);
/* Nothing but zeros: damage, which a crash leaves, rather than a file of another kind. */
bool shard_kind_is_zeros(const uint8_t *head, size_t bytes);
/* "JPEG", "PNG", ... when the bytes begin an encoded image, else NULL. */
const char *shard_kind_image(const uint8_t *head, size_t bytes);
/* Whether these bytes, four at least, are all those of a text. */
bool shard_kind_is_text(const uint8_t *head, size_t bytes);

#endif
