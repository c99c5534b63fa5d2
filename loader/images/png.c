/* PNG images. Called by decoders for every PNG. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <spng.h>

#include "formats/image_header.h"
#include "loader/images/image_memory.h"
#include "loader/images/picture.h"
#include "loader/images/scratch.h"

/* Limits: the largest width or height, and the largest chunk other than pixels (colour profile, text), which is not
 * used. */
#define SIDE_MAX 65535u
#define CHUNK_BYTES_MAX ((size_t)16 << 20)
#define ROW_PIXEL_BYTES 8u      /* four channels of 16 bits */

struct png {
    const uint8_t *bytes;       /* the current image */
    size_t byte_count;
    spng_ctx *library;
    struct spng_ihdr header;
    struct scratch pixels;
    size_t reserved;            /* bytes reserved from image_memory until the image ends */
};

static int open_png(void **decoder_out)
{
    *decoder_out = calloc(1, sizeof(struct png));
    return *decoder_out != NULL ? 0 : -ENOMEM;
}

static void close_png(void *decoder)
{
    struct png *const png = decoder;
    if (png == NULL)
        return;
    spng_ctx_free(png->library);
    scratch_release(&png->pixels);
    free(png);
}

static int png_fail(int rc, struct text *problem)
{
    text_add(problem, "%s", spng_strerror(rc));
    return rc == SPNG_EMEM ? -ENOMEM : -EBADMSG;
}

static int read_header(struct png *png, const uint8_t *bytes, size_t byte_count)
{
    int rc = spng_set_image_limits(png->library, SIDE_MAX, SIDE_MAX);
    if (rc == 0)
        rc = spng_set_chunk_limits(png->library, CHUNK_BYTES_MAX, CHUNK_BYTES_MAX);
    if (rc == 0)
        rc = spng_set_png_buffer(png->library, bytes, byte_count);
    return rc == 0 ? spng_get_ihdr(png->library, &png->header) : rc;
}

static int begin_png(void *decoder, const uint8_t *bytes, size_t byte_count, uint32_t *height_out, uint32_t *width_out,
                     struct text *problem)
{
    struct png *const png = decoder;
    png->bytes = bytes;
    png->byte_count = byte_count;
    spng_ctx_free(png->library);
    png->library = spng_ctx_new(0);
    const int rc = png->library != NULL ? read_header(png, bytes, byte_count) : SPNG_EMEM;
    if (rc != 0)
        return png_fail(rc, problem);
    if ((uint64_t)png->header.width * png->header.height > image_memory_pixels()) {
        text_add(problem, "it has %" PRIu32 "x%" PRIu32 " pixels, and input.max_pixels is %" PRIu64, png->header.width,
                 png->header.height, image_memory_pixels());
        return -EBADMSG;
    }
    *height_out = png->header.height;
    *width_out = png->header.width;
    return 0;
}

/* The library decodes only plain grey images of up to 8 bits to one channel. All other images become three channels,
 * without opacity, with the high bytes of 16-bit numbers. */
static int choose_format(const struct spng_ihdr *header)
{
    return header->color_type == SPNG_COLOR_TYPE_GRAYSCALE && header->bit_depth <= 8 ? SPNG_FMT_G8 : SPNG_FMT_RGB8;
}

/* Reserve memory for all pixels and for two rows as they are stored. */
static int reserve_memory(struct png *png, size_t pixel_bytes, struct text *problem)
{
    const size_t bytes = pixel_bytes + 2 * ROW_PIXEL_BYTES * (size_t)png->header.width;
    if (bytes <= IMAGE_OWN_BYTES)
        return 0;
    const int rc = image_memory_take(bytes, problem);
    png->reserved = rc == 0 ? bytes : 0;
    return rc;
}

static int read_pixels(struct png *png, struct text *problem)
{
    const int format = choose_format(&png->header);
    size_t bytes;
    int rc = spng_decoded_image_size(png->library, format, &bytes);
    if (rc != 0)
        return png_fail(rc, problem);
    rc = reserve_memory(png, bytes, problem);
    if (rc != 0)
        return rc;
    void *const pixels = scratch_need(&png->pixels, bytes);
    rc = pixels != NULL ? spng_decode_image(png->library, pixels, bytes, format, 0) : SPNG_EMEM;
    return rc == 0 ? 0 : png_fail(rc, problem);
}

static void end_png(void *decoder)
{
    struct png *const png = decoder;
    if (png->reserved == 0)
        return;
    spng_ctx_free(png->library);
    png->library = NULL;
    scratch_release(&png->pixels);
    image_memory_give_back(png->reserved);
    png->reserved = 0;
}

static int read_png(void *decoder, const struct picture_request *request, struct picture *picture_out,
                    uint32_t *eighths_out, struct text *problem)
{
    struct png *const png = decoder;
    const int rc = read_pixels(png, problem);
    if (rc != 0)
        return rc;
    if (request->to_end && !image_png_is_intact(png->bytes, png->byte_count)) {
        text_add(problem, "the checksum of a chunk is wrong");
        return -EBADMSG;
    }
    const uint32_t channels = choose_format(&png->header) == SPNG_FMT_G8 ? 1 : 3;
    *picture_out = (struct picture){
        .pixels = png->pixels.memory,
        .row_bytes = (size_t)png->header.width * channels,
        .width = png->header.width,
        .height = png->header.height,
        .channels = channels,
    };
    *eighths_out = PICTURE_FULL_EIGHTHS;
    return 0;
}

const struct picture_ops picture_png_ops = {
    .name = "PNG", .open = open_png, .close = close_png, .begin = begin_png, .read = read_png,
    .end = end_png };
