/* The kind of a file that is no TFRecord shard, by its first bytes. */
#ifndef PIPETRAIN_SHARD_KIND_H
#define PIPETRAIN_SHARD_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As many bytes shard_kind_text needs. */
#define SHARD_KIND_BYTES 512u

/* A phrase such as "it is compressed with xz: ...", or NULL if the kind is not recognised. */
const char *shard_kind_text(const uint8_t *head, size_t bytes);
/* Whether all bytes are 0, as a crash leaves them: damage rather than a file of another kind. */
bool shard_kind_is_zeros(const uint8_t *head, size_t bytes);
/* "JPEG", "PNG", ... if they are the beginning of an encoded image, else NULL. */
const char *shard_kind_image(const uint8_t *head, size_t bytes);
/* The same of one that is written as text, in base64. */
const char *shard_kind_text_image(const uint8_t *head, size_t bytes);
/* Whether these are at least four bytes, all of text. */
bool shard_kind_is_text(const uint8_t *head, size_t bytes);

#endif
