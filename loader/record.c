/* Reading a record and decoding it to a sample. Called by decoders for every record, and for some records while a data
 * set is opened. */
#include "loader/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/tfrecord.h"
#include "loader/augment/augment.h"
#include "loader/sample.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/text.h"
#include "stage/log.h"

/* Network file systems may fail temporarily, so reads are repeated. */
#define READ_ATTEMPTS 3
#define READ_PAUSE_NS 100000000L
#define CHANGED_TEXT "; the file has changed since it was opened"
#define REMOVED_TEXT "; the file was there at the start"

static size_t frame_bytes_max(const struct dataset *dataset)
{
    return dataset->payload_bytes_max + (size_t)TFRECORD_FRAME_BYTES;
}

size_t decode_context_bytes(const struct dataset *dataset)
{
    const struct image_ops *const image = dataset->format.image;
    return sizeof(struct decode_context) + 2 * frame_bytes_max(dataset) + (image != NULL ? image->codec_bytes : 0);
}

static int open_codec(struct decode_context *context)
{
    const struct image_ops *const image = context->dataset->format.image;
    return image != NULL && image->open != NULL ? image->open(&context->codec) : 0;
}

int decode_context_open(struct decode_context **context_out, const struct dataset *dataset)
{
    struct decode_context *const context = malloc(sizeof(*context));
    if (context == NULL)
        return -ENOMEM;
    *context = (struct decode_context){ .dataset = dataset, .frame = malloc(2 * frame_bytes_max(dataset)) };
    const int rc = context->frame != NULL ? open_codec(context) : -ENOMEM;
    if (rc < 0) {
        decode_context_close(context);
        return rc;
    }
    context->spare = context->frame + frame_bytes_max(dataset);
    *context_out = context;
    return 0;
}

void decode_context_close(struct decode_context *context)
{
    if (context == NULL)
        return;
    if (context->codec != NULL)
        context->dataset->format.image->close(context->codec);
    scratch_release(&context->room);
    free(context->frame);
    free(context);
}

static size_t frame_bytes(const struct record_read *read)
{
    return read->place.payload_bytes + (size_t)TFRECORD_FRAME_BYTES;
}

void record_problem_set(struct record_problem *problem, enum tfrecord_check check,
                        const struct tfrecord_problem *frame_problem)
{
    problem->has_crcs = check == TFRECORD_LENGTH_CRC || check == TFRECORD_PAYLOAD_CRC;
    problem->stored_crc = problem->has_crcs ? frame_problem->stored_crc : 0;
    problem->computed_crc = problem->has_crcs ? frame_problem->computed_crc : 0;
    frame_problem_describe(check, frame_problem, problem->text, sizeof(problem->text));
}

/* Check that the whole frame was read, with the length in the index and correct checksums. 0 or a negative errno. */
static int frame_check(const struct record_read *read, struct record_problem *problem)
{
    problem->has_crcs = false;
    if (read->got < 0) {
        snprintf(problem->text, sizeof(problem->text), "cannot be read: %s", strerror((int)-read->got));
        return (int)read->got;
    }
    uint64_t payload_bytes;
    struct tfrecord_problem frame_problem;
    const enum tfrecord_check check = tfrecord_verify(read->frame, (size_t)read->got, &payload_bytes, &frame_problem);
    if (check == TFRECORD_OK && payload_bytes == read->place.payload_bytes)
        return 0;
    if (check == TFRECORD_OK)
        snprintf(problem->text, sizeof(problem->text), "is %" PRIu64 " bytes long, %" PRIu32 " when it was indexed",
                 payload_bytes, read->place.payload_bytes);
    else
        record_problem_set(problem, check, &frame_problem);
    return -EBADMSG;
}

static struct record_read read_again(const struct dataset *dataset, const struct record_read *first, uint8_t *spare)
{
    struct record_read second = { .place = first->place, .frame = spare };
    struct shard_source *const source = dataset->sources[first->place.shard];
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        second.got = shard_source_read_afresh(source, spare, frame_bytes(first), first->place.offset);
        if (second.got != -EIO && second.got != -ESTALE)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = READ_PAUSE_NS }, NULL);
    }
    return second;
}

static bool reads_agree(const struct record_read *first, const struct record_read *second)
{
    return first->got == second->got
        && (first->got < 0 || memcmp(first->frame, second->frame, (size_t)first->got) == 0);
}

static const char *second_text(const struct record_read *first, const struct record_read *second)
{
    if (second->got == -ENOTSUP)
        return "";
    return reads_agree(first, second) ? "; a second read agrees: it is not memory"
                                      : "; a second read differs and is wrong too";
}

static void problem_add(struct record_problem *problem, const char *text)
{
    const size_t length = strlen(problem->text);
    snprintf(problem->text + length, sizeof(problem->text) - length, "%s", text);
}

/* Did the read fail because another file now has the shard's name? A second read would read that file. */
static bool is_replaced(const struct dataset *dataset, const struct record_read *read)
{
    return read->got == -ESTALE && shard_source_changed(dataset->sources[read->place.shard]);
}

/* The first read failed its check. Read again into `spare`; if that fails too, add to the problem how the two reads
 * compare. */
static int recover(const struct dataset *dataset, const struct record_read *first, uint8_t *spare,
                   struct record_problem *problem)
{
    const struct shard_index *const index = &dataset->indexes[first->place.shard];
    if (atomic_load(&index->is_foreign)) {
        shard_index_describe_stale(index, problem->text, sizeof(problem->text));
        return -EBADMSG;
    }
    if (is_replaced(dataset, first)) {
        problem_add(problem, CHANGED_TEXT);
        return -EBADMSG;
    }
    if (first->got == -ENOENT) {        /* of a shard that is opened only now */
        problem_add(problem, REMOVED_TEXT);
        return -EBADMSG;
    }
    struct record_problem second_problem;
    const struct record_read second = read_again(dataset, first, spare);
    const int rc = frame_check(&second, &second_problem);
    const uint32_t shard = first->place.shard;
    if (rc == 0) {
        log_message(LOG_RUN,
                    "%s: record %" PRIu64 " at byte %" PRIu64 ": %s, but a second read was right: "
                    "the file is not damaged, but memory or the connection to the disk may be failing",
                    dataset->paths[shard], dataset_number(dataset, &first->place), first->place.offset, problem->text);
        return 0;
    }
    problem_add(problem, second_text(first, &second));
    if (shard_source_changed(dataset->sources[shard]))
        problem_add(problem, CHANGED_TEXT);
    return rc;
}

/* The valid frame of a record, possibly in the spare buffer, or NULL. */
static const uint8_t *frame_find(const struct decode_context *context, const struct record_read *read,
                                 struct record_problem *problem_out)
{
    if (frame_check(read, problem_out) == 0)
        return read->frame;
    return recover(context->dataset, read, context->spare, problem_out) == 0 ? context->spare : NULL;
}

static int augment_sample(struct decode_context *context, const struct sample_target *target,
                          struct record_problem *problem_out)
{
    const struct image_request *const request = &target->request;
    const int rc = augment_apply(request->augment, request, &context->room, target->pixels);
    if (rc < 0)
        snprintf(problem_out->text, sizeof(problem_out->text), "there is not enough memory to augment its image");
    return rc;
}

int record_decode(struct decode_context *context, const struct record_read *read, const struct sample_target *target,
                  struct record_problem *problem_out)
{
    const uint8_t *const frame = frame_find(context, read, problem_out);
    problem_out->is_damage = frame == NULL;
    if (frame == NULL)
        return -EBADMSG;
    problem_out->has_crcs = false;
    const int rc = sample_read(&context->dataset->format, context->codec, frame + TFRECORD_HEADER_BYTES,
                               read->place.payload_bytes, target, problem_out->text, sizeof(problem_out->text));
    return rc == 0 ? augment_sample(context, target, problem_out) : rc;
}

static struct record_read read_record(struct decode_context *context, uint64_t id)
{
    struct record_read read = { .place = dataset_find(context->dataset, id), .frame = context->frame };
    struct shard_source *const source = context->dataset->sources[read.place.shard];
    const struct start_record *const known = context->given != NULL ? start_records_find(context->given, id) : NULL;
    if (known != NULL && known->bytes == frame_bytes(&read)) {
        memcpy(context->frame, known->frame, known->bytes);
        read.got = (ssize_t)known->bytes;
        return read;
    }
    read.got = shard_source_read(source, context->frame, frame_bytes(&read), read.place.offset);
    if (context->kept != NULL && read.got == (ssize_t)frame_bytes(&read))
        (void)start_records_add(context->kept, id, context->frame, frame_bytes(&read));
    return read;
}

int record_load(struct decode_context *context, uint64_t id, const struct sample_target *target,
                struct record_problem *problem_out)
{
    const struct record_read read = read_record(context, id);
    return record_decode(context, &read, target, problem_out);
}

const uint8_t *record_payload(struct decode_context *context, uint64_t id, uint64_t *bytes_out,
                              struct record_problem *problem_out)
{
    const struct record_read read = read_record(context, id);
    const uint8_t *const frame = frame_find(context, &read, problem_out);
    *bytes_out = read.place.payload_bytes;
    return frame != NULL ? frame + TFRECORD_HEADER_BYTES : NULL;
}

void record_place_describe(const char *path, uint64_t record, uint64_t offset, const struct record_problem *problem,
                           char *text, size_t text_size)
{
    struct text line;
    text_init(&line, text, text_size);
    text_add_escaped(&line, path);
    text_add(&line, ": record %" PRIu64 " at byte %" PRIu64 ": %s", record, offset, problem->text);
}

void record_describe(const struct dataset *dataset, uint64_t id, const struct record_problem *problem, char *text,
                     size_t text_size)
{
    const struct dataset_place place = dataset_find(dataset, id);
    record_place_describe(dataset->paths[place.shard], dataset_number(dataset, &place), place.offset, problem, text,
                          text_size);
}
