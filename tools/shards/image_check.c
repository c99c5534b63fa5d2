/* Images decoded to see that they can be. Called by the threads of a scan. */
#include "tools/shards/image_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/images/image.h"

/* Decoded to so many pixels each way: everything is read, and little is written. */
#define SIDE 32u
#define CHANNELS 3u

int image_check_init(struct image_check *check, const struct sample_names *names, uint32_t workers)
{
    *check = (struct image_check){ *names, calloc(workers, sizeof(*check->codecs)), workers };
    return check->codecs != NULL ? 0 : -ENOMEM;
}

static bool refuse(struct record_problem *problem, const char *text)
{
    problem->has_crcs = false;
    snprintf(problem->text, sizeof(problem->text), "%s", text);
    return false;
}

static bool decode(struct image_check *check, uint32_t worker, const struct found_sample *sample,
                   struct record_problem *problem)
{
    void **const codec = &check->codecs[worker];
    const int rc = *codec != NULL ? 0 : image_encoded_ops.open(codec);
    const struct stored_image image = {
        .key = "image",
        .bytes = sample->bytes,
        .byte_count = sample->byte_count,
        .height.said = IMAGE_SIZE_UNSAID,
        .width.said = IMAGE_SIZE_UNSAID,
        .channels.said = IMAGE_SIZE_UNSAID,
    };
    const struct image_request request = { .shape = { SIDE, SIDE, CHANNELS } };
    uint8_t pixels[SIDE * SIDE * CHANNELS];
    if (rc < 0)
        return refuse(problem, strerror(-rc));
    problem->has_crcs = false;
    return image_encoded_ops.decode(*codec, &image, &request, pixels, problem->text, sizeof(problem->text)) == 0;
}

bool image_check_visit(void *arg, uint32_t worker, uint32_t shard, const struct piece_record *record,
                       struct record_problem *problem_out)
{
    struct image_check *const check = arg;
    struct found_sample sample;
    size_t bad_offset;
    (void)shard;
    if (found_sample_read(&check->names, record->payload, record->payload_bytes, &sample, &bad_offset) < 0)
        return refuse(problem_out, "is no tf.train.Example");
    if (sample.image == FOUND_NOTHING)
        return refuse(problem_out, "has no feature known as image: name one with --image-key");
    if (sample.image == FOUND_UNKNOWN)
        return refuse(problem_out, "its image is neither JPEG nor PNG, nor pixels of the sizes beside it");
    return (sample.image != FOUND_JPEG && sample.image != FOUND_PNG) || decode(check, worker, &sample, problem_out);
}

void image_check_release(struct image_check *check)
{
    for (uint32_t i = 0; i < check->workers && check->codecs != NULL; i++)
        if (check->codecs[i] != NULL)
            image_encoded_ops.close(check->codecs[i]);
    free(check->codecs);
}
