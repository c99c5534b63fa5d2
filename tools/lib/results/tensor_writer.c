/* Makes the header and the list of parts of a safetensors file. */
#include "tools/lib/results/tensor_writer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compute/floats.h"

#define TENSOR_TEXT_BYTES 640u  /* upper limit for a tensor in the header; usually some 200 */
#define HASH_STATE_BYTES 1024u  /* upper limit of a state of XXH3, whose size its header does not tell */
#define FRONT_PARTS 2u          /* parts before the tensors: the length of the header, the header */

size_t tensor_writer_bytes(uint32_t count, uint32_t pieces)
{
    const struct tensor_writer *const writer = NULL;
    const size_t per_tensor = sizeof(*writer->entries) + sizeof(*writer->hashes) + sizeof(*writer->texts) +
                              TENSOR_TEXT_BYTES;
    return count * per_tensor + pieces * (sizeof(*writer->pieces) + sizeof(*writer->parts)) +
           HASH_STATE_BYTES;
}

int tensor_writer_open(struct tensor_writer *writer, uint32_t count, uint32_t pieces, uint32_t texts,
                       size_t alignment)
{
    *writer = (struct tensor_writer){ .count = count, .alignment = alignment };
    json_init(&writer->header, false);
    writer->entries = calloc(count + 1u, sizeof(*writer->entries));
    writer->hashes = calloc(count + 1u, sizeof(*writer->hashes));
    writer->pieces = calloc(pieces + 1u, sizeof(*writer->pieces));
    writer->texts = calloc((size_t)count + texts, sizeof(*writer->texts));
    writer->parts = calloc(pieces + FRONT_PARTS, sizeof(*writer->parts));
    writer->hash = XXH3_createState();
    return writer->entries != NULL && writer->hashes != NULL && writer->pieces != NULL && writer->texts != NULL &&
           writer->parts != NULL && writer->hash != NULL ? 0 : -ENOMEM;
}

void tensor_writer_close(struct tensor_writer *writer)
{
    json_release(&writer->header);
    free(writer->entries);
    free(writer->hashes);
    free(writer->pieces);
    free(writer->texts);
    free(writer->parts);
    XXH3_freeState(writer->hash);
}

void tensor_writer_name(struct tensor_writer *writer, uint32_t i, const char *name, const struct parameter *parameter,
                        size_t bytes)
{
    struct safetensors_entry *const entry = &writer->entries[i];
    *entry = (struct safetensors_entry){ .name = name, .dtype = "U8", .rank = 1, .dims = { bytes }, .bytes = bytes };
    if (parameter != NULL) {
        entry->dtype = "F32";
        entry->rank = parameter->rank;
        entry->bytes = parameter->count * sizeof(float);
        for (uint32_t axis = 0; axis < parameter->rank; axis++)
            entry->dims[axis] = parameter->dims[axis];
    }
    writer->hashes[i] = tensor_hash_of(name, 0);
}

void tensor_writer_begin(struct tensor_writer *writer)
{
    writer->piece_count = 0;
    writer->put_bytes = 0;
    writer->broken = NULL;
}

/* Check and hash the piece together, while it is in the caches. */
void tensor_writer_put(struct tensor_writer *writer, uint32_t i, const void *data, size_t bytes, bool is_weight)
{
    const struct safetensors_entry *const entry = &writer->entries[i];
    const size_t count = bytes / sizeof(float);
    if (is_weight && writer->broken == NULL && floats_find_nonfinite(data, count) != count)
        writer->broken = entry->name;
    if (writer->put_bytes == 0)
        XXH3_64bits_reset(writer->hash);
    XXH3_64bits_update(writer->hash, data, bytes);
    writer->pieces[writer->piece_count++] = (struct file_part){ data, bytes };
    writer->put_bytes += bytes;
    assert(writer->put_bytes <= entry->bytes);
    if (writer->put_bytes < entry->bytes)
        return;
    writer->hashes[i] = tensor_hash_of(entry->name, XXH3_64bits_digest(writer->hash));
    writer->put_bytes = 0;
}

int tensor_writer_head(struct tensor_writer *writer, const struct safetensors_text *before, uint32_t before_count,
                       const struct safetensors_text *after, uint32_t after_count)
{
    struct safetensors_text *const hashes = writer->texts + before_count;
    memcpy(writer->texts, before, before_count * sizeof(*before));
    for (uint32_t i = 0; i < writer->count; i++)
        hashes[i] = (struct safetensors_text){ writer->hashes[i].key, writer->hashes[i].text };
    memcpy(hashes + writer->count, after, after_count * sizeof(*after));
    return safetensors_header(&writer->header, writer->entries, writer->count, writer->texts,
                              before_count + writer->count + after_count, writer->alignment);
}

/* Pieces that are adjacent in memory are written together. */
void tensor_writer_join(struct tensor_writer *writer)
{
    struct file_part *last = &writer->parts[1];
    safetensors_length(writer->header.bytes, writer->length);
    writer->parts[0] = (struct file_part){ writer->length, sizeof(writer->length) };
    *last = (struct file_part){ writer->header.text, writer->header.bytes };
    for (uint32_t i = 0; i < writer->piece_count; i++) {
        if (last > &writer->parts[1] && (const char *)last->data + last->bytes == writer->pieces[i].data)
            last->bytes += writer->pieces[i].bytes;
        else
            *++last = writer->pieces[i];
    }
    writer->part_count = (size_t)(last - writer->parts) + 1;
}
