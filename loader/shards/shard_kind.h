/* The kind of a file that is not a TFRecord shard, recognised by its first bytes. */
#ifndef PIPETRAIN_SHARD_KIND_H
#define PIPETRAIN_SHARD_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of first bytes that shard_kind_text needs. */
#define SHARD_KIND_BYTES 512u

/* A phrase such as "it is compressed with xz: ...", or NULL if the kind is not recognised. */
const char *shard_kind_text(const uint8_t *head, size_t bytes);
/* Are all bytes 0? A crash may leave such files, so this is damage rather than another kind of file. */
bool shard_kind_is_zeros(const uint8_t *head, size_t bytes);
/* The format ("JPEG", "PNG", ...) of an encoded image that begins with these bytes, else NULL. */
const char *shard_kind_image(const uint8_t *head, size_t bytes);
/* The format of an encoded image that is written as text, in base64, else NULL. */
const char *shard_kind_text_image(const uint8_t *head, size_t bytes);
/* Are there at least four bytes, and are all of them text? */
bool shard_kind_is_text(const uint8_t *head, size_t bytes);

#endif
