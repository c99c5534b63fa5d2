/* Decode images to check them. Called by the threads of a scan. */
#include "tools/shards/image_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "loader/images/image.h"
#include "loader/shards/text.h"
#include "stage/log.h"
#include "tools/shards/shard_walk.h"

/* Encoded images are decoded to this size: all data are read, and little is written. */
#define SIDE 32u
#define CHANNELS 3u

int image_check_init(struct image_check *check, const struct sample_names *names, char *const *paths, uint32_t count,
                     uint32_t threads)
{
    *check = (struct image_check){
        .names = *names, .paths = paths, .threads = threads, .checkers = calloc(threads, sizeof(*check->checkers)),
        .pixel_bytes = calloc((size_t)count + 1, sizeof(*check->pixel_bytes)),
    };
    return check->checkers != NULL && check->pixel_bytes != NULL ? 0 : -ENOMEM;
}

static bool set_problem(struct record_problem *problem, const char *text)
{
    problem->has_crcs = false;
    snprintf(problem->text, sizeof(problem->text), "%s", text);
    return false;
}

/* The shape to decode to: for raw pixels their own, and for a list of unknown size a single row. */
static struct image_shape shape_of(const struct found_sample *sample)
{
    if (!found_image_is_raw(sample->image))
        return (struct image_shape){ SIDE, SIDE, CHANNELS };
    if (sample->width == 0)
        return (struct image_shape){ 1, (uint32_t)sample->list.value_count, 1 };
    return (struct image_shape){ sample->height, sample->width, sample->channels };
}

/* Whether the image is decoded without flaws, or memory was too small to check it; else problem->text says why not. */
static bool decode(struct image_checker *checker, const struct found_sample *sample, struct record_problem *problem)
{
    const struct image_shape shape = shape_of(sample);
    size_t bytes = 0;
    uint8_t *const pixels = image_shape_bytes(&shape, &bytes) ? scratch_need(&checker->pixels, bytes) : NULL;
    problem->has_crcs = false;
    problem->text[0] = '\0';
    const int rc = pixels == NULL ? -ENOMEM
                                  : found_decoder_decode(&checker->decoder, sample, &shape, pixels, problem->text,
                                                         sizeof(problem->text));
    checker->is_short_of_memory |= rc == -ENOMEM;
    return rc == -ENOMEM || (rc == 0 && problem->text[0] == '\0');
}

/* Prepend the file name of the image to the problem, if the record has it. */
static void name_image(const struct chunk_record *record, struct record_problem *problem)
{
    static const char *const key = "image/filename";
    const size_t key_bytes = strlen(key);
    const struct example_query query = { &key, &key_bytes, 1 };
    struct feature file;
    char shown[256];
    struct record_problem named = { .text = "" };
    struct text text;
    size_t bad_offset;
    if (example_find(record->payload, record->payload_bytes, &query, &file, &bad_offset) != 0 ||
        file.kind != FEATURE_BYTES || file.value_count != 1 || file.byte_count == 0)
        return;
    log_escape((const char *)file.bytes, file.byte_count, shown, sizeof(shown));
    text_init(&text, named.text, sizeof(named.text));
    text_add(&text, "%s: %s", shown, problem->text);
    *problem = named;
}

/* ---- pixels without a size ---- */

#define NO_PIXELS UINT64_MAX

/* The number of bytes of the first image in a chunk; NO_PIXELS if any image has another format, or features for its
 * size. */
static uint64_t pixel_bytes_of_chunk(const struct image_check *check, const struct chunk *chunk)
{
    struct chunk_record record = { 0 };
    struct found_sample sample;
    uint64_t bytes = NO_PIXELS;
    size_t bad_offset;
    while (chunk_next(chunk, &record)) {
        const bool is_read =
            found_sample_read(&check->names, record.payload, record.payload_bytes, &sample, &bad_offset) == 0;
        if (!is_read || !sample.is_unsized)
            return NO_PIXELS;
        bytes = bytes == NO_PIXELS ? sample.byte_count : bytes;
    }
    return bytes;
}

/* The result of pixel_bytes_of_chunk for the first chunk of a shard. It is computed once; threads that compute it at
 * the same time get the same result. */
static uint64_t find_pixel_bytes(const struct image_check *check, uint32_t shard)
{
    struct shard_walk walk = { .source = NULL };
    struct chunk chunk = { .bytes = NULL };
    uint64_t bytes = atomic_load(&check->pixel_bytes[shard]);
    if (bytes != 0)
        return bytes;
    const bool is_read = shard_source_open(&walk.source, NULL, check->paths[shard]) == 0 &&
                         shard_walk_next(&walk, &chunk) == 0;
    bytes = is_read ? pixel_bytes_of_chunk(check, &chunk) : NO_PIXELS;
    shard_walk_release(&walk);
    shard_source_close(walk.source);
    chunk_release(&chunk);
    atomic_store(&check->pixel_bytes[shard], bytes);
    return bytes;
}

/* ---- records ---- */

bool image_check_visit(void *arg, uint32_t thread, uint32_t shard, const struct chunk_record *record,
                       struct record_problem *problem_out)
{
    struct image_check *const check = arg;
    struct found_sample sample;
    size_t bad_offset;
    if (found_sample_read(&check->names, record->payload, record->payload_bytes, &sample, &bad_offset) < 0)
        return set_problem(problem_out, "is not a tf.train.Example");
    if (sample.image == FOUND_NOTHING)
        return set_problem(problem_out, "has no feature known as image: name one with --image-key");
    const uint64_t pixel_bytes = sample.is_unsized ? find_pixel_bytes(check, shard) : NO_PIXELS;
    if (pixel_bytes == sample.byte_count) {
        check->checkers[thread].undecoded++;
        return true;
    }
    if (pixel_bytes != NO_PIXELS) {
        problem_out->has_crcs = false;
        snprintf(problem_out->text, sizeof(problem_out->text), "its image has %zu bytes, the first one of the shard %"
                 PRIu64 ", and no feature says its size", sample.byte_count, pixel_bytes);
        return false;
    }
    if (sample.image == FOUND_UNKNOWN)
        return set_problem(problem_out,
                           "its image is neither JPEG nor PNG, nor pixels of the size in the other features");
    if (sample.flaw[0] != '\0') {
        problem_out->has_crcs = false;
        snprintf(problem_out->text, sizeof(problem_out->text), "feature '%s' holds %s", sample.key, sample.flaw);
        name_image(record, problem_out);
        return false;
    }
    if (decode(&check->checkers[thread], &sample, problem_out))
        return true;
    name_image(record, problem_out);
    return false;
}

int image_check_result(const struct image_check *check)
{
    int rc = 0;
    for (uint32_t i = 0; check->checkers != NULL && i < check->threads; i++)
        rc = check->checkers[i].is_short_of_memory ? -ENOMEM : rc;
    return rc;
}

uint64_t image_check_undecoded(const struct image_check *check)
{
    uint64_t undecoded = 0;
    for (uint32_t i = 0; check->checkers != NULL && i < check->threads; i++)
        undecoded += check->checkers[i].undecoded;
    return undecoded;
}

void image_check_release(struct image_check *check)
{
    for (uint32_t i = 0; i < check->threads && check->checkers != NULL; i++) {
        found_decoder_release(&check->checkers[i].decoder);
        scratch_release(&check->checkers[i].pixels);
    }
    free(check->checkers);
    free(check->pixel_bytes);
}
