/* Decoding for tests, without augmentation. */
#include "tests/helpers/encoded_codec.h"

static void *codec;

int encoded_codec_open(void **state)
{
    (void)state;
    return image_encoded_ops.open(&codec);
}

int encoded_codec_close(void **state)
{
    (void)state;
    image_encoded_ops.close(codec);
    return 0;
}

int encoded_codec_decode(const void *bytes, size_t byte_count, const struct image_shape *shape, uint8_t *sample_out,
                         char *problem_out, size_t problem_size)
{
    const struct stored_image image = { .key = "image", .bytes = bytes, .byte_count = byte_count };
    const struct image_request request = { .shape = *shape };
    problem_out[0] = '\0';
    return image_encoded_ops.decode(codec, &image, &request, sample_out, problem_out, problem_size);
}
