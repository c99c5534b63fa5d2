/* JPEG images. Called by decoders for every JPEG. The library reports errors by a function that may not
 * return: every call of it is made inside jpeg_try, in the thread the decoder belongs to. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "loader/images/channels.h"
#include "loader/images/picture_ops.h"
#include "loader/images/scratch.h"

/* An image can be made to take minutes by thousands of scans; encoders write about ten. */
#define SCANS_MAX 100
/* Chroma between two samples of it is computed from both: with so many columns more at each side a part of an image
 * has the pixels of the whole. */
#define COLUMNS_BESIDE 1u

struct jpeg {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;             /* where a call of the library that fails goes */
    const char *refusal;        /* why it fails, where that is no error of the library */
    struct scratch pixels;
    char warning[JMSG_LENGTH_MAX];      /* the first of an image */

    const uint8_t *bytes;       /* of the image begun */
    size_t byte_count;
    const struct picture_wish *wish;
    struct picture picture;
    uint32_t eighths;
};

static void refuse(struct jpeg *jpeg, const char *refusal)
{
    jpeg->refusal = refusal;
    longjmp(jpeg->escape, 1);
}

static void meet_error(j_common_ptr library)
{
    refuse(library->client_data, NULL);
}

/* The first warning of an image is kept; level < 0 is one. */
static void meet_message(j_common_ptr library, int level)
{
    struct jpeg *const jpeg = library->client_data;
    if (level >= 0 || library->err->num_warnings++ > 0)
        return;
    library->err->format_message(library, jpeg->warning);
}

static void print_nothing(j_common_ptr library)
{
    (void)library;
}

static void watch_scans(j_common_ptr library)
{
    struct jpeg *const jpeg = library->client_data;
    if (jpeg->library.input_scan_number > SCANS_MAX)
        refuse(jpeg, "it has more than 100 scans");
}

/* 0, or -EBADMSG with what the library or refuse says of it. */
static int jpeg_try(struct jpeg *jpeg, void (*call)(struct jpeg *jpeg), struct text *problem)
{
    if (setjmp(jpeg->escape) == 0) {
        call(jpeg);
        return 0;
    }
    char message[JMSG_LENGTH_MAX];
    jpeg->errors.format_message((j_common_ptr)&jpeg->library, message);
    text_add(problem, "%s", jpeg->refusal != NULL ? jpeg->refusal : message);
    return -EBADMSG;
}

static int open_jpeg(void **decoder_out)
{
    struct jpeg *const jpeg = calloc(1, sizeof(*jpeg));
    if (jpeg == NULL)
        return -ENOMEM;
    jpeg->library.err = jpeg_std_error(&jpeg->errors);
    jpeg->library.client_data = jpeg;
    jpeg->errors.error_exit = meet_error;
    jpeg->errors.emit_message = meet_message;
    jpeg->errors.output_message = print_nothing;
    jpeg->progress.progress_monitor = watch_scans;
    *decoder_out = jpeg;
    return 0;
}

static void close_jpeg(void *decoder)
{
    struct jpeg *const jpeg = decoder;
    if (jpeg == NULL)
        return;
    jpeg_destroy_decompress(&jpeg->library);
    scratch_release(&jpeg->pixels);
    free(jpeg);
}

/* Every image has an object of the library to itself: one that is used again keeps tables, and an image that lacks
 * its own would be decoded with those of the image before, whichever that was in this thread. */
static void read_header(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *const library = &jpeg->library;
    jpeg_destroy_decompress(library);
    jpeg_create_decompress(library);
    library->progress = &jpeg->progress;
    jpeg_mem_src(library, jpeg->bytes, jpeg->byte_count);
    (void)jpeg_read_header(library, TRUE);
    if ((uint64_t)library->image_width * library->image_height > PICTURE_PIXELS_MAX)
        refuse(jpeg, "it has more than 64 Mi pixels");
    if (library->num_components == 2 || library->num_components > 4)
        refuse(jpeg, "it has neither 1, 3 nor 4 colour components");
}

static int begin_jpeg(void *decoder, const uint8_t *bytes, size_t byte_count, uint32_t *height_out, uint32_t *width_out,
                      struct text *problem)
{
    struct jpeg *const jpeg = decoder;
    jpeg->bytes = bytes;
    jpeg->byte_count = byte_count;
    if (jpeg_try(jpeg, read_header, problem) < 0)
        return -EBADMSG;
    *height_out = jpeg->library.image_height;
    *width_out = jpeg->library.image_width;
    return 0;
}

/* The smallest size that still has as many pixels as are wanted: powers of two are what the library is fast at. The
 * nearest pixel is one of the whole image, and so is what Pillow resizes. */
static uint32_t choose_eighths(const struct picture_wish *wish)
{
    const struct augment_view *const view = wish->view;
    uint32_t eighths = view->filter == FILTER_NEAREST || view->resize.x_step > 0 ? PICTURE_WHOLE : 1;
    while (eighths < PICTURE_WHOLE && (view->width * eighths < (double)wish->shape->width * PICTURE_WHOLE ||
                                       view->height * eighths < (double)wish->shape->height * PICTURE_WHOLE))
        eighths *= 2;
    return eighths;
}

/* Grey as it is, colours as far as they are wanted, four inks to be mixed afterwards. */
static J_COLOR_SPACE choose_colours(const struct jpeg *jpeg)
{
    if (jpeg->library.num_components == 4)
        return JCS_CMYK;
    return jpeg->library.num_components == 1 || jpeg->wish->shape->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

static void find_part(struct jpeg *jpeg)
{
    const struct augment_view *const view = jpeg->wish->view;
    const double size = (double)jpeg->eighths / PICTURE_WHOLE;
    const struct picture_stretch x = picture_stretch(view->left * size, view->width * size,
                                                     jpeg->library.output_width);
    const struct picture_stretch y = picture_stretch(view->top * size, view->height * size,
                                                     jpeg->library.output_height);
    jpeg->picture.left = x.first;
    jpeg->picture.width = x.count;
    jpeg->picture.top = y.first;
    jpeg->picture.height = y.count;
}

/* Leave out the columns that are not needed. Returns the first one that is left. */
static uint32_t crop_columns(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *const library = &jpeg->library;
    const struct picture *const picture = &jpeg->picture;
    const JDIMENSION whole = library->output_width, end = picture->left + picture->width;
    JDIMENSION left = picture->left > COLUMNS_BESIDE ? picture->left - COLUMNS_BESIDE : 0;
    JDIMENSION width = (whole - end > COLUMNS_BESIDE ? end + COLUMNS_BESIDE : whole) - left;
    if (width < whole)
        jpeg_crop_scanline(library, &left, &width);
    return left;
}

static void read_rows(struct jpeg *jpeg, uint8_t *pixels, size_t row_bytes)
{
    struct jpeg_decompress_struct *const library = &jpeg->library;
    if (jpeg->picture.top > 0)
        (void)jpeg_skip_scanlines(library, jpeg->picture.top);
    for (uint32_t y = 0; y < jpeg->picture.height; y++) {
        JSAMPROW row = pixels + y * row_bytes;
        (void)jpeg_read_scanlines(library, &row, 1);
    }
}

/* Where the full ink is stored as 255, as everywhere but in files of Adobe's, make it 0. */
static void mix_inks(const struct jpeg *jpeg, uint8_t *pixels, size_t row_bytes)
{
    const size_t count = jpeg->library.output_width;
    for (uint32_t y = 0; y < jpeg->picture.height; y++) {
        uint8_t *const row = pixels + y * row_bytes;
        for (size_t i = 0; i < 4 * count && !jpeg->library.saw_Adobe_marker; i++)
            row[i] = (uint8_t)(255 - row[i]);
        channels_mix_inks(row, count);
    }
}

static void read_part(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *const library = &jpeg->library;
    jpeg->eighths = choose_eighths(jpeg->wish);
    library->scale_num = jpeg->eighths;
    library->scale_denom = PICTURE_WHOLE;
    library->out_color_space = choose_colours(jpeg);
    (void)jpeg_start_decompress(library);
    find_part(jpeg);
    const uint32_t left = crop_columns(jpeg);
    const uint32_t components = (uint32_t)library->output_components;
    const size_t row_bytes = (size_t)library->output_width * components;
    uint8_t *const pixels = scratch_need(&jpeg->pixels, row_bytes * jpeg->picture.height);
    if (pixels == NULL)
        refuse(jpeg, "there is not enough memory for it");
    read_rows(jpeg, pixels, row_bytes);
    if (components == 4)
        mix_inks(jpeg, pixels, row_bytes);
    jpeg->picture.channels = components == 4 ? 3 : components;
    jpeg->picture.pixels = pixels + (size_t)(jpeg->picture.left - left) * jpeg->picture.channels;
    jpeg->picture.row_bytes = row_bytes;
}

static int read_jpeg(void *decoder, const struct picture_wish *wish, struct picture *picture_out, uint32_t *eighths_out,
                     struct text *problem)
{
    struct jpeg *const jpeg = decoder;
    jpeg->wish = wish;
    const int rc = jpeg_try(jpeg, read_part, problem);
    if (rc < 0)
        return rc;
    if (jpeg->errors.num_warnings > 0)
        text_add(problem, "%s", jpeg->warning);
    *picture_out = jpeg->picture;
    *eighths_out = jpeg->eighths;
    return 0;
}

const struct picture_ops picture_jpeg_ops = {
    .name = "JPEG", .open = open_jpeg, .close = close_jpeg, .begin = begin_jpeg, .read = read_jpeg };
