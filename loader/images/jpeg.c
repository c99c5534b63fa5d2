/* JPEG images. Called by decoders for every JPEG. The library reports errors through a function that must not return,
 * so every call of the library is made inside jpeg_try. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

#include "loader/images/image_memory.h"
#include "loader/images/picture.h"
#include "loader/images/scratch.h"

/* An image with thousands of scans can take minutes to decode; encoders write about ten. */
#define SCANS_MAX 100
/* Chroma is interpolated between neighbours. With one more column on each side, a cropped image has the same pixels as
 * the whole one. */
#define COLUMNS_BESIDE 1u
#define CROPPED_MORE (2 * COLUMNS_BESIDE + 64u)        /* largest number of added columns; the library crops to whole
                                                        * blocks */

struct jpeg {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;             /* jump target of failing library calls */
    int error;                  /* set by jpeg_fail; 0: the library reported the error */
    char reason[256];           /* text of that error */
    size_t reserved;            /* bytes reserved from image_memory until the image ends */
    struct scratch pixels;
    char warning[JMSG_LENGTH_MAX];      /* the image's first warning */

    const uint8_t *bytes;       /* the current image */
    size_t byte_count;
    const struct picture_request *request;
    struct picture picture;
    uint32_t eighths;
};

/* End the library call with this error and reason. */
__attribute__((format(printf, 3, 4)))
static void jpeg_fail(struct jpeg *jpeg, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(jpeg->reason, sizeof(jpeg->reason), format, arguments);
    va_end(arguments);
    jpeg->error = error;
    longjmp(jpeg->escape, 1);
}

static void handle_error(j_common_ptr library)
{
    struct jpeg *const jpeg = library->client_data;
    jpeg->error = 0;
    longjmp(jpeg->escape, 1);
}

/* Store the first warning of an image. Warnings have negative levels. */
static void handle_message(j_common_ptr library, int level)
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

static void check_scans(j_common_ptr library)
{
    struct jpeg *const jpeg = library->client_data;
    if (jpeg->library.input_scan_number > SCANS_MAX)
        jpeg_fail(jpeg, -EBADMSG, "it has more than %d scans", SCANS_MAX);
}

/* Call `call`. 0; or -EBADMSG or -ENOMEM (the image may be valid), with the message of the library or of jpeg_fail. */
static int jpeg_try(struct jpeg *jpeg, void (*call)(struct jpeg *jpeg), struct text *problem)
{
    if (setjmp(jpeg->escape) == 0) {
        call(jpeg);
        return 0;
    }
    char message[JMSG_LENGTH_MAX];
    jpeg->errors.format_message((j_common_ptr)&jpeg->library, message);
    text_add(problem, "%s", jpeg->error != 0 ? jpeg->reason : message);
    if (jpeg->error != 0)
        return jpeg->error;
    return jpeg->errors.msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EBADMSG;
}

static int open_jpeg(void **decoder_out)
{
    struct jpeg *const jpeg = calloc(1, sizeof(*jpeg));
    if (jpeg == NULL)
        return -ENOMEM;
    jpeg->library.err = jpeg_std_error(&jpeg->errors);
    jpeg->library.client_data = jpeg;
    jpeg->errors.error_exit = handle_error;
    jpeg->errors.emit_message = handle_message;
    jpeg->errors.output_message = print_nothing;
    jpeg->progress.progress_monitor = check_scans;
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

/* Every image has a new library object. A reused object would keep tables, and an image without its own tables would be
 * decoded with those of the thread's previous image. */
static void read_header(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *const library = &jpeg->library;
    jpeg_destroy_decompress(library);
    jpeg_create_decompress(library);
    library->progress = &jpeg->progress;
    jpeg_mem_src(library, jpeg->bytes, jpeg->byte_count);
    (void)jpeg_read_header(library, TRUE);
    if ((uint64_t)library->image_width * library->image_height > image_memory_pixels())
        jpeg_fail(jpeg, -EBADMSG, "it has %ux%u pixels, and input.max_pixels is %" PRIu64, library->image_width,
               library->image_height, image_memory_pixels());
    if (library->num_components == 2 || library->num_components > 4)
        jpeg_fail(jpeg, -EBADMSG, "it has neither 1, 3 nor 4 colour components");
}

static int begin_jpeg(void *decoder, const uint8_t *bytes, size_t byte_count, uint32_t *height_out, uint32_t *width_out,
                      struct text *problem)
{
    struct jpeg *const jpeg = decoder;
    jpeg->bytes = bytes;
    jpeg->byte_count = byte_count;
    const int rc = jpeg_try(jpeg, read_header, problem);
    if (rc < 0)
        return rc;
    *height_out = jpeg->library.image_height;
    *width_out = jpeg->library.image_width;
    return 0;
}

/* The smallest scale (the library is fast for powers of two) at which the view still has as many pixels as the sample.
 * FILTER_NEAREST and Pillow's resize are defined on the full-size image. */
static uint32_t choose_eighths(const struct picture_request *request)
{
    const struct augment_view *const view = request->view;
    uint32_t eighths = view->filter == FILTER_NEAREST || view->resize.x_step > 0 ? PICTURE_FULL_EIGHTHS : 1;
    while (eighths < PICTURE_FULL_EIGHTHS &&
           (view->width * eighths < (double)request->shape->width * PICTURE_FULL_EIGHTHS ||
            view->height * eighths < (double)request->shape->height * PICTURE_FULL_EIGHTHS))
        eighths *= 2;
    return eighths;
}

/* Grey stays grey, colour is converted to the sample's channels, CMYK is converted to RGB by mix_inks. */
static J_COLOR_SPACE choose_colours(const struct jpeg *jpeg)
{
    if (jpeg->library.num_components == 4)
        return JCS_CMYK;
    return jpeg->library.num_components == 1 || jpeg->request->shape->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

static void find_part(struct jpeg *jpeg)
{
    const struct augment_view *const view = jpeg->request->view;
    const double size = (double)jpeg->eighths / PICTURE_FULL_EIGHTHS;
    const struct pixel_range x = pixel_range_touched(view->left * size, view->width * size,
                                                     jpeg->library.output_width);
    const struct pixel_range y = pixel_range_touched(view->top * size, view->height * size,
                                                     jpeg->library.output_height);
    jpeg->picture.left = x.first;
    jpeg->picture.width = x.count;
    jpeg->picture.top = y.first;
    jpeg->picture.height = y.count;
}

/* Crop to the needed columns. Returns the first decoded column. */
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

/* a * b / 255, rounded. */
static uint8_t multiply(uint32_t a, uint32_t b)
{
    const uint32_t product = a * b + 128;
    return (uint8_t)(((product >> 8) + product) >> 8);
}

/* Multiply the first three of the inks cyan, magenta, yellow and black by the fourth, for `count` pixels in place. */
static void mix_row(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t black = pixels[4 * i + 3];
        for (size_t c = 0; c < 3; c++)
            pixels[3 * i + c] = multiply(pixels[4 * i + c], black);
    }
}

/* Convert CMYK to RGB. mix_row expects 0 for full ink, as stored by Adobe; all other programs store 255. */
static void mix_inks(const struct jpeg *jpeg, uint8_t *pixels, size_t row_bytes)
{
    const size_t count = jpeg->library.output_width;
    for (uint32_t y = 0; y < jpeg->picture.height; y++) {
        uint8_t *const row = pixels + y * row_bytes;
        for (size_t i = 0; i < 4 * count && !jpeg->library.saw_Adobe_marker; i++)
            row[i] = (uint8_t)(255 - row[i]);
        mix_row(row, count);
    }
}

static size_t round_up(size_t number, size_t unit)
{
    return (number + unit - 1) / unit * unit;
}

/* The size of the image's coefficients, all of which the library stores if there are several scans. */
static size_t coefficient_bytes(struct jpeg_decompress_struct *library)
{
    size_t bytes = 0;
    for (int i = 0; i < library->num_components && jpeg_has_multiple_scans(library); i++) {
        const jpeg_component_info *const colour = &library->comp_info[i];
        const size_t width = round_up(colour->width_in_blocks, (size_t)colour->h_samp_factor);
        const size_t height = round_up(colour->height_in_blocks, (size_t)colour->v_samp_factor);
        bytes += width * height * sizeof(JBLOCK);
    }
    return bytes;
}

static size_t pixel_bytes(const struct jpeg *jpeg)
{
    const size_t whole = jpeg->library.output_width, part = jpeg->picture.width + CROPPED_MORE;
    return (part < whole ? part : whole) * (size_t)jpeg->library.out_color_components * jpeg->picture.height;
}

static void reserve_memory(struct jpeg *jpeg)
{
    const size_t copies = jpeg->request->is_copied ? 2 : 1;
    const size_t bytes = coefficient_bytes(&jpeg->library) + copies * pixel_bytes(jpeg);
    char words[sizeof(jpeg->reason)];
    struct text text;
    text_init(&text, words, sizeof(words));
    if (bytes <= IMAGE_OWN_BYTES)
        return;
    if (image_memory_take(bytes, &text) < 0)
        jpeg_fail(jpeg, -ENOMEM, "%s", words);
    jpeg->reserved = bytes;
}

static void end_jpeg(void *decoder)
{
    struct jpeg *const jpeg = decoder;
    if (jpeg->reserved == 0)
        return;
    jpeg_destroy_decompress(&jpeg->library);
    scratch_release(&jpeg->pixels);
    image_memory_give_back(jpeg->reserved);
    jpeg->reserved = 0;
}

static void read_part(struct jpeg *jpeg)
{
    struct jpeg_decompress_struct *const library = &jpeg->library;
    jpeg->eighths = choose_eighths(jpeg->request);
    library->scale_num = jpeg->eighths;
    library->scale_denom = PICTURE_FULL_EIGHTHS;
    library->out_color_space = choose_colours(jpeg);
    jpeg_calc_output_dimensions(library);
    find_part(jpeg);
    reserve_memory(jpeg);
    (void)jpeg_start_decompress(library);
    const uint32_t left = crop_columns(jpeg);
    const uint32_t components = (uint32_t)library->output_components;
    const size_t row_bytes = (size_t)library->output_width * components;
    uint8_t *const pixels = scratch_need(&jpeg->pixels, row_bytes * jpeg->picture.height);
    if (pixels == NULL)
        jpeg_fail(jpeg, -ENOMEM, "there is not enough memory for it");
    read_rows(jpeg, pixels, row_bytes);
    if (components == 4)
        mix_inks(jpeg, pixels, row_bytes);
    jpeg->picture.channels = components == 4 ? 3 : components;
    jpeg->picture.pixels = pixels + (size_t)(jpeg->picture.left - left) * jpeg->picture.channels;
    jpeg->picture.row_bytes = row_bytes;
}

/* Read from the last row to the end of the image. */
static void read_end(struct jpeg *jpeg)
{
    (void)jpeg_finish_decompress(&jpeg->library);
}

static bool has_all_rows(const struct jpeg *jpeg)
{
    return jpeg->library.output_scanline == jpeg->library.output_height;
}

static int read_jpeg(void *decoder, const struct picture_request *request, struct picture *picture_out,
                     uint32_t *eighths_out, struct text *problem)
{
    struct jpeg *const jpeg = decoder;
    jpeg->request = request;
    const int rc = jpeg_try(jpeg, read_part, problem);
    if (rc < 0)
        return rc;
    if (request->to_end && has_all_rows(jpeg) && jpeg_try(jpeg, read_end, problem) < 0)
        text_add(problem, " (after the last row)");
    else if (jpeg->errors.num_warnings > 0)
        text_add(problem, "%s", jpeg->warning);
    *picture_out = jpeg->picture;
    *eighths_out = jpeg->eighths;
    return 0;
}

const struct picture_ops picture_jpeg_ops = {
    .name = "JPEG", .open = open_jpeg, .close = close_jpeg, .begin = begin_jpeg, .read = read_jpeg,
    .end = end_jpeg };
