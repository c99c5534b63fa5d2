/* pipetrain-shards extract: write the image of a record to a file. Called by the main thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <spng.h>

#include "loader/images/image.h"
#include "loader/record.h"
#include "loader/shards/shard_index.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/decimal.h"
#include "tools/lib/results/result_file.h"
#include "tools/shards/found_sample.h"
#include "tools/shards/shards_command.h"

/* The record to extract. */
struct target {
    const char *path;
    uint64_t record, offset;
    uint8_t *frame;             /* owned */
    size_t frame_bytes;
};

static int __attribute__((format(printf, 2, 3))) target_fail(const struct target *target, const char *format, ...)
{
    struct record_problem problem = { 0 };
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem.text, sizeof(problem.text), format, arguments);
    va_end(arguments);
    record_place_describe(target->path, target->record, target->offset, &problem, line, sizeof(line));
    log_message(LOG_ERROR, "%s", line);
    return -EBADMSG;
}

/* Find the position of the record. 0, or a negative errno after a message. */
static int find_record(struct target *target, struct shard_source *source, const struct shards_request *request)
{
    struct shard_index index;
    int rc = shards_index_open(&index, source, request, true);
    if (rc == -ECANCELED)
        log_message(LOG_ERROR, "no record was read");
    if (rc < 0)
        return rc;
    rc = target->record < index.record_count ? 0 : -ENOENT;
    if (rc == 0) {
        const struct shard_record record = shard_index_find(&index, target->record);
        target->offset = record.offset;
        target->frame_bytes = (size_t)record.payload_bytes + TFRECORD_FRAME_BYTES;
    } else
        log_message(LOG_ERROR, "%s: has no record %" PRIu64 ": it has %" PRIu64 ", counted from 0", target->path,
                    target->record, index.record_count);
    shard_index_release(&index);
    return rc;
}

static int read_record(struct target *target, struct shard_source *source)
{
    struct tfrecord_problem problem;
    struct record_problem told;
    uint64_t payload_bytes;
    target->frame = malloc(target->frame_bytes);
    if (target->frame == NULL) {
        log_message(LOG_ERROR, "%s: %s", target->path, strerror(ENOMEM));
        return -ENOMEM;
    }
    const ssize_t got = shard_source_read(source, target->frame, target->frame_bytes, target->offset);
    if (got < 0)
        return target_fail(target, "cannot be read: %s", strerror((int)-got));
    const enum tfrecord_check check = tfrecord_verify(target->frame, (size_t)got, &payload_bytes, &problem);
    if (check == TFRECORD_OK)
        return 0;
    record_problem_set(&told, check, &problem);
    return target_fail(target, "%s", told.text);
}

/* Load the record. 0, or a negative errno after a message. */
static int load_record(struct target *target, const struct shards_request *request)
{
    struct shard_source *source;
    int rc = shards_source_open(&source, target->path);
    if (rc < 0)
        return rc;
    rc = find_record(target, source, request);
    if (rc == 0)
        rc = read_record(target, source);
    shard_source_close(source);
    return rc;
}

static int find_image(const struct target *target, const struct shards_request *request, struct found_sample *sample)
{
    const struct sample_names names = { .image = request->image_key, .label = request->label_key };
    size_t bad_offset;
    if (found_sample_read(&names, target->frame + TFRECORD_HEADER_BYTES, target->frame_bytes - TFRECORD_FRAME_BYTES,
                          sample, &bad_offset) < 0)
        return target_fail(target, "is not a tf.train.Example (byte %zu of its payload)", bad_offset);
    if (sample->image == FOUND_NOTHING)
        return target_fail(target, "has no feature known as image: name one with --image-key (" SHARDS_PROGRAM
                              " head shows them)");
    if (sample->list.value_count > 0 && sample->width == 0)
        return target_fail(target, "its image is %" PRIu64 " %s without features for its size: it can be used for "
                      "training, but not extracted", sample->list.value_count, found_image_text(sample->image));
    if (sample->flaw[0] != '\0')
        return target_fail(target, "its image has %s", sample->flaw);
    if (sample->image == FOUND_UNKNOWN && sample->byte_count == 0)
        return target_fail(target, "its image has no bytes");
    if (found_image_is_raw(sample->image) && sample->channels != 1 && sample->channels != 3)
        return target_fail(target, "its image has %" PRIu32 " channels: PGM and PPM have 1 or 3", sample->channels);
    return 0;
}

/* Decode raw pixels. 0, or a negative errno after a message. */
static int decode_raw(const struct target *target, const struct found_sample *sample, uint8_t *pixels_out)
{
    const struct image_shape shape = { sample->height, sample->width, sample->channels };
    struct found_decoder decoder = { 0 };
    char problem[512];
    const int rc = found_decoder_decode(&decoder, sample, &shape, pixels_out, problem, sizeof(problem));
    found_decoder_release(&decoder);
    return rc == -EBADMSG ? target_fail(target, "%s", problem) : rc;
}

static bool ends_with(const char *path, const char *end)
{
    const size_t bytes = strlen(path), end_bytes = strlen(end);
    return bytes > end_bytes && strcasecmp(path + bytes - end_bytes, end) == 0;
}

/* Check that the suffix of the output matches the format of the image. */
static int check_name(const struct target *target, const struct shards_request *request,
                      const struct found_sample *sample)
{
    static const struct { const char *end; bool is_jpeg, is_png, is_raw; } rows[] = {
        { ".jpg", true, false, false }, { ".jpeg", true, false, false }, { ".png", false, true, true },
        { ".pgm", false, false, true }, { ".ppm", false, false, true },  { ".pnm", false, false, true },
    };
    const bool is_raw = found_image_is_raw(sample->image), is_unknown = sample->image == FOUND_UNKNOWN;
    const char *const ends = is_raw ? sample->channels == 1 ? ".pgm or .png" : ".ppm or .png"
                             : sample->image == FOUND_JPEG ? ".jpg" : ".png";
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const bool fits = is_raw ? rows[i].is_raw : sample->image == FOUND_JPEG ? rows[i].is_jpeg : rows[i].is_png;
        if (!ends_with(request->output, rows[i].end))
            continue;
        if (is_unknown)
            return target_fail(target, "its image has an unknown format: choose a file name that does not end in %s",
                               rows[i].end);
        if (!fits)
            return target_fail(target, "its image is %s: call the file %s, not %s",
                               found_image_text(sample->image), ends, rows[i].end);
    }
    return 0;
}

/* Encode a PNG file, which the caller frees; NULL without memory. */
static uint8_t *encode_png(const struct found_sample *sample, const uint8_t *pixels, size_t bytes, size_t *bytes_out)
{
    const struct spng_ihdr header = {
        .width = sample->width, .height = sample->height, .bit_depth = 8,
        .color_type = sample->channels == 1 ? SPNG_COLOR_TYPE_GRAYSCALE : SPNG_COLOR_TYPE_TRUECOLOR,
    };
    spng_ctx *const encoder = spng_ctx_new(SPNG_CTX_ENCODER);
    uint8_t *file = NULL;
    int rc = encoder != NULL ? spng_set_option(encoder, SPNG_ENCODE_TO_BUFFER, 1) : SPNG_EMEM;
    if (rc == 0)
        rc = spng_set_ihdr(encoder, (struct spng_ihdr *)&header);
    if (rc == 0)
        rc = spng_encode_image(encoder, pixels, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
    if (rc == 0)
        file = spng_get_png_buffer(encoder, bytes_out, &rc);
    spng_ctx_free(encoder);
    return file;
}

static int write_png(const struct shards_request *request, const struct found_sample *sample, const uint8_t *pixels,
                     size_t bytes)
{
    size_t file_bytes = 0;
    uint8_t *const file = encode_png(sample, pixels, bytes, &file_bytes);
    const struct file_part part = { file, file_bytes };
    if (file == NULL) {
        log_message(LOG_ERROR, "%s: %s", request->output, strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    const int code = result_file_write(request->output, request->may_replace, &part, 1);
    free(file);
    return code;
}

static int write_pixels(const struct shards_request *request, const struct found_sample *sample, const uint8_t *pixels,
                        size_t bytes)
{
    if (ends_with(request->output, ".png"))
        return write_png(request, sample, pixels, bytes);
    char header[64];
    const int length = snprintf(header, sizeof(header), "P%c\n%" PRIu32 " %" PRIu32 "\n255\n",
                                sample->channels == 1 ? '5' : '6', sample->width, sample->height);
    const struct file_part parts[] = { { header, (size_t)length }, { pixels, bytes } };
    return result_file_write(request->output, request->may_replace, parts, 2);
}

/* Write the bytes of the image as they are stored. Returns an exit code. */
static int write_raw(const struct target *target, const struct shards_request *request,
                     const struct found_sample *sample)
{
    const size_t bytes = (size_t)sample->height * sample->width * sample->channels;
    uint8_t *const pixels = malloc(bytes);
    const int rc = pixels != NULL ? decode_raw(target, sample, pixels) : -ENOMEM;
    if (rc == -ENOMEM)
        log_message(LOG_ERROR, "%s: %s", request->output, strerror(ENOMEM));
    const int code = rc < 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : write_pixels(request, sample, pixels, bytes);
    free(pixels);
    return code;
}

static void print_result(const struct shards_request *request, const struct found_sample *sample)
{
    char text[128];
    snprintf(text, sizeof(text), "%s", found_image_text(sample->image));
    if (sample->reading.type != NULL)
        pixel_reading_describe(&sample->reading, text, sizeof(text));
    printf("%s: %s", request->output, text);
    if (sample->width > 0)
        printf(", %" PRIu32 "x%" PRIu32 "x%" PRIu32, sample->width, sample->height, sample->channels);
    if (sample->list.value_count == 0)
        printf(", %zu bytes", sample->byte_count);
    if (sample->has_label)
        printf(", label %" PRId64, sample->label);
    printf("\n");
}

static int write_image(const struct target *target, const struct shards_request *request,
                       const struct found_sample *sample)
{
    const struct file_part part = { sample->bytes, sample->byte_count };
    const int code = found_image_is_raw(sample->image)
                         ? write_raw(target, request, sample)
                         : result_file_write(request->output, request->may_replace, &part, 1);
    if (code == EXIT_CODE_OK)
        print_result(request, sample);
    return code;
}

static int run(const struct shards_request *request, struct shard_list *list)
{
    (void)list;
    struct target target = { .path = request->words[0] };
    struct found_sample sample;
    if (!decimal_u64(request->words[1], &target.record)) {
        log_message(LOG_ERROR, "extract: '%s' is not the number of a record, from 0", request->words[1]);
        return EXIT_CODE_USAGE;
    }
    if (request->output == NULL) {
        log_message(LOG_ERROR, "extract: no output file: add -o FILE");
        return EXIT_CODE_USAGE;
    }
    int rc = load_record(&target, request);
    if (rc == 0)
        rc = find_image(&target, request, &sample);
    if (rc == 0)
        rc = check_name(&target, request, &sample);
    const int code = rc < 0 ? (int)exit_code_of(rc, EXIT_CODE_DATA) : write_image(&target, request, &sample);
    free(target.frame);
    return code;
}

const struct shards_command command_extract = {
    .name = "extract",
    .words = "FILE RECORD -o OUT",
    .words_least = 2,
    .words_most = 2,
    .options = "oifl",
    .summary = "write the image of a record to a file",
    .help = "RECORD counts from 0. Encoded images are written unchanged; raw pixels and\n"
            "lists of floats or integers become PGM (one channel) or PPM (three), or PNG if\n"
            "OUT ends in .png. The suffix of OUT must match the format.\n\n"
            "  " SHARDS_PROGRAM " extract train-00000-of-00004 17 -o 17.jpg\n"
            "  " SHARDS_PROGRAM " extract data/train-00000-of-00004 0 -o digit.pgm --force\n",
    .run = run,
};
