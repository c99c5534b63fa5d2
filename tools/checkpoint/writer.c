/* Saving states. The header is made once at the start, with the longest texts, so that it fits later. */
#include "tools/checkpoint/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "compute/finite.h"
#include "formats/safetensors.h"
#include "stage/file/file.h"

#define ZEROS "0000000000000000"
#define FIXED_TEXTS 10u
#define TENSOR_TEXT_BYTES 640u  /* in the header, at most */
#define HEADER_TEXT_BYTES 4096u /* the other texts without settings */

struct tensor_hash { char key[sizeof(CHECKPOINT_KEY_TENSOR) + CHECKPOINT_NAME_BYTES], text[20]; };

struct checkpoint_writer {
    struct checkpoint_shape shape;
    struct checkpoint_layout layout;
    struct safetensors_entry *entries;
    struct safetensors_text *texts;     /* FIXED_TEXTS, a hash of every tensor, and those of about */
    const struct weights_about *about;  /* lent */
    struct tensor_hash *hashes;
    char *data;
    const char *settings;               /* lent */
    struct json header;
    char steps[24], position[72], towers[16], lines[48];
    struct checkpoint_mark mark;        /* of what was taken */
};

size_t checkpoint_writer_bytes(const struct checkpoint_shape *shape, const char *settings)
{
    struct checkpoint_layout layout;
    if (checkpoint_layout_open(&layout, shape) != 0)
        return 0;
    const size_t per_tensor = sizeof(struct safetensors_entry) + sizeof(struct safetensors_text) +
                              sizeof(struct tensor_hash) + sizeof(struct checkpoint_tensor) + TENSOR_TEXT_BYTES;
    const size_t bytes = sizeof(struct checkpoint_writer) + layout.bytes + layout.count * per_tensor +
                         2 * strlen(settings) + HEADER_TEXT_BYTES + weights_about_bytes(shape->net) +
                         2 * FILE_DIRECT_ALIGNMENT;
    checkpoint_layout_close(&layout);
    return bytes;
}

/* ---- opening ---- */

/* Whole blocks, so that they are written past the system's cache. */
static size_t data_room(size_t bytes)
{
    return (bytes + FILE_DIRECT_ALIGNMENT - 1) / FILE_DIRECT_ALIGNMENT * FILE_DIRECT_ALIGNMENT;
}

static int take_room(struct checkpoint_writer *writer)
{
    const size_t count = writer->layout.count;
    writer->entries = calloc(count, sizeof(*writer->entries));
    writer->texts = calloc(count + FIXED_TEXTS + WEIGHTS_ABOUT_TEXTS, sizeof(*writer->texts));
    writer->hashes = calloc(count, sizeof(*writer->hashes));
    writer->data = aligned_alloc(FILE_DIRECT_ALIGNMENT, data_room(writer->layout.bytes));
    if (writer->entries == NULL || writer->texts == NULL || writer->hashes == NULL || writer->data == NULL)
        return -ENOMEM;
    memset(writer->data, 0, writer->layout.bytes);      /* the kernel gives memory when it is written */
    return 0;
}

static struct safetensors_entry entry_of(const struct checkpoint_writer *writer, const struct checkpoint_tensor *tensor)
{
    const struct parameter *const parameter = &writer->shape.net->parameters[tensor->place.parameter];
    struct safetensors_entry entry = { .name = tensor->name, .dtype = "F32", .rank = parameter->rank,
                                      .bytes = tensor->bytes };
    for (uint32_t axis = 0; axis < parameter->rank; axis++)
        entry.dims[axis] = parameter->dims[axis];
    if (tensor->place.part == CHECKPOINT_CARRIED) {
        entry.dtype = "U8";
        entry.rank = 1;
        entry.dims[0] = tensor->bytes;
    }
    return entry;
}

static void place_texts(struct checkpoint_writer *writer)
{
    const struct safetensors_text texts[FIXED_TEXTS] = {
        { "format", "pt" },
        { CHECKPOINT_KEY_HEADER, ZEROS },
        { CHECKPOINT_KEY_VERSION, CHECKPOINT_VERSION },
        { WEIGHTS_STEPS, writer->steps },
        { CHECKPOINT_KEY_SETTINGS, writer->settings },
        { CHECKPOINT_KEY_POSITION, writer->position },
        { CHECKPOINT_KEY_TOWERS, writer->towers },
        { CHECKPOINT_KEY_LINES, writer->lines },
        { CHECKPOINT_KEY_SUMS, writer->mark.sums },
        { CHECKPOINT_KEY_COURSE, writer->mark.course },
    };
    memcpy(writer->texts, texts, sizeof(texts));
    for (uint32_t i = 0; i < writer->layout.count; i++) {
        struct tensor_hash *const hash = &writer->hashes[i];
        snprintf(hash->key, sizeof(hash->key), CHECKPOINT_KEY_TENSOR "%s", writer->layout.tensors[i].name);
        snprintf(hash->text, sizeof(hash->text), ZEROS);
        writer->texts[FIXED_TEXTS + i] = (struct safetensors_text){ hash->key, hash->text };
        writer->entries[i] = entry_of(writer, &writer->layout.tensors[i]);
    }
}

static int make_header(struct checkpoint_writer *writer)
{
    const struct checkpoint_mark *const mark = &writer->mark;
    const uint32_t own_count = FIXED_TEXTS + writer->layout.count;
    uint32_t about_count;
    const struct safetensors_text *const about = weights_about_texts(writer->about, &about_count);
    memcpy(writer->texts + own_count, about, about_count * sizeof(*about));
    snprintf(writer->steps, sizeof(writer->steps), "%" PRIu64, mark->position.step);
    snprintf(writer->position, sizeof(writer->position), "%" PRIu32 " %" PRIu64 " %" PRIu64, mark->position.epoch,
             mark->position.step, mark->position.evaluated);
    snprintf(writer->towers, sizeof(writer->towers), "%" PRIu32, writer->shape.towers);
    snprintf(writer->lines, sizeof(writer->lines), "%" PRIu64 " %" PRIu64, mark->lines_bytes[RUN_METRICS],
             mark->lines_bytes[RUN_QUARANTINE]);
    return safetensors_header(&writer->header, writer->entries, writer->layout.count, writer->texts,
                              own_count + about_count, FILE_DIRECT_ALIGNMENT);
}

static int make_longest_header(struct checkpoint_writer *writer)
{
    struct checkpoint_mark *const mark = &writer->mark;
    *mark = (struct checkpoint_mark){ .position = { UINT32_MAX, UINT64_MAX, UINT64_MAX } };
    for (int i = 0; i < RUN_LINES_COUNT; i++)
        mark->lines_bytes[i] = UINT64_MAX;
    memset(mark->sums, '0', sizeof(mark->sums) - 1);
    memset(mark->course, '0', sizeof(mark->course) - 1);
    return make_header(writer);
}

int checkpoint_writer_open(struct checkpoint_writer **writer_out, const struct checkpoint_shape *shape,
                           const char *settings, const struct weights_about *about)
{
    struct checkpoint_writer *const writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return -ENOMEM;
    writer->shape = *shape;
    writer->settings = settings;
    writer->about = about;
    json_init(&writer->header, false);
    int rc = checkpoint_layout_open(&writer->layout, shape);
    if (rc == 0)
        rc = take_room(writer);
    if (rc == 0) {
        place_texts(writer);
        rc = make_longest_header(writer);
    }
    if (rc != 0) {
        checkpoint_writer_close(writer);
        return rc;
    }
    *writer_out = writer;
    return 0;
}

void checkpoint_writer_close(struct checkpoint_writer *writer)
{
    if (writer == NULL)
        return;
    json_release(&writer->header);
    free(writer->data);
    free(writer->hashes);
    free(writer->texts);
    free(writer->entries);
    checkpoint_layout_close(&writer->layout);
    free(writer);
}

/* ---- saving ---- */

static int take_tensor(struct checkpoint_writer *writer, const struct checkpoint_tensor *tensor,
                       const struct snapshot *snapshot)
{
    char *const out = writer->data + tensor->offset;
    const struct checkpoint_place *const place = &tensor->place;
    if (place->part == CHECKPOINT_VALUE && writer->shape.averages)
        return snapshot_average(snapshot, place->parameter, (float *)(void *)out);
    if (place->part == CHECKPOINT_VALUE || place->part == CHECKPOINT_RAW)
        return snapshot_value(snapshot, place->parameter, (float *)(void *)out);
    if (place->part == CHECKPOINT_STATE)
        return snapshot_state(snapshot, place->state, place->parameter, (float *)(void *)out);
    size_t bytes;
    const void *const carried = snapshot_carried(snapshot, &bytes);
    memcpy(out, carried, bytes);
    return 0;
}

int checkpoint_writer_take(struct checkpoint_writer *writer, struct snapshot *const *snapshots,
                           const struct checkpoint_mark *mark)
{
    int rc = 0;
    for (uint32_t i = 0; i < writer->layout.count && rc == 0; i++) {
        const struct checkpoint_tensor *const tensor = &writer->layout.tensors[i];
        rc = take_tensor(writer, tensor, snapshots[tensor->place.tower]);
    }
    writer->mark = *mark;
    return rc;
}

static bool is_finite(const struct checkpoint_writer *writer, const struct checkpoint_tensor *tensor)
{
    const size_t count = tensor->bytes / sizeof(float);
    const bool is_value = tensor->place.part == CHECKPOINT_VALUE || tensor->place.part == CHECKPOINT_RAW;
    return !is_value || finite_count((const float *)(const void *)(writer->data + tensor->offset), count) == count;
}

/* While each is in the processor's caches: the name of one that is not finite, or NULL when all are hashed. */
static const char *hash_tensors(struct checkpoint_writer *writer)
{
    for (uint32_t i = 0; i < writer->layout.count; i++) {
        const struct checkpoint_tensor *const tensor = &writer->layout.tensors[i];
        if (!is_finite(writer, tensor))
            return tensor->name;
        snprintf(writer->hashes[i].text, sizeof(writer->hashes[i].text), "%016" PRIx64,
                 (uint64_t)XXH3_64bits(writer->data + tensor->offset, tensor->bytes));
    }
    return NULL;
}

/* Of the header with zeros in its place, which is the first key's. */
static void hash_header(struct json *header)
{
    char text[CHECKPOINT_HASH_DIGITS + 1];
    char *const place = strstr(header->text, "\"" CHECKPOINT_KEY_HEADER "\":\"") + sizeof(CHECKPOINT_KEY_HEADER) + 3;
    snprintf(text, sizeof(text), "%016" PRIx64, (uint64_t)XXH3_64bits(header->text, header->bytes));
    memcpy(place, text, CHECKPOINT_HASH_DIGITS);
}

static int write_file(const struct checkpoint_writer *writer, struct run_directory *directory, const char *name)
{
    uint8_t length[SAFETENSORS_LENGTH_BYTES];
    safetensors_length(writer->header.bytes, length);
    const struct file_part parts[] = { { length, sizeof(length) },
                                       { writer->header.text, writer->header.bytes },
                                       { writer->data, writer->layout.bytes } };
    return run_directory_write(directory, name, parts, sizeof(parts) / sizeof(parts[0]));
}

int checkpoint_writer_write(struct checkpoint_writer *writer, struct run_directory *directory, uint32_t keep,
                            const char **broken_out)
{
    const struct checkpoint_mark *const mark = &writer->mark;
    char name[CHECKPOINT_FILE_BYTES];
    *broken_out = hash_tensors(writer);
    if (*broken_out != NULL)
        return -EDOM;
    int rc = make_header(writer);
    if (rc != 0)
        return rc;
    hash_header(&writer->header);
    checkpoint_file_name(mark->position.step, name);
    if ((mark->files & CHECKPOINT_NEWEST) != 0)
        rc = write_file(writer, directory, name);
    if (rc == 0 && (mark->files & CHECKPOINT_NEWEST) != 0)
        run_directory_keep(directory, checkpoint_file_step, mark->position.step, keep);
    const int best_rc = (mark->files & CHECKPOINT_BEST) != 0 ? write_file(writer, directory, CHECKPOINT_BEST_FILE) : 0;
    return rc != 0 ? rc : best_rc;
}
