/* How much of the time of a JPEG is the library's: random parts of images decoded to 224 x 224 by the loader's codec,
 * and by a bare loop of libjpeg-turbo that decodes the same rows and columns at the same size and scales nothing;
 * beside them the checksum of the file's bytes. One thread; they take turns, image by image.
 *
 *     make bench/decode && bench/decode ROUNDS FILE... */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jpeglib.h>

#include "formats/crc32c.h"
#include "loader/images/picture.h"

/* Pixels go round in this much memory. */
enum { SIDE = 224, PIXEL_BYTES = 1 << 20, ROW_BYTES_MAX = 4 * 65536 };

static const struct augment augment = {
    .seed = 1, .crop = { [PHASE_TRAIN] = CROP_RESIZED }, .filter = FILTER_BILINEAR, .flips = true };

struct file {
    uint8_t *bytes;
    size_t count;
};

static double thread_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct file read_file(const char *path)
{
    struct file file = { NULL, 0 };
    FILE *const stream = fopen(path, "rb");
    if (stream == NULL || fseek(stream, 0, SEEK_END) != 0) {
        perror(path);
        exit(3);
    }
    file.count = (size_t)ftell(stream);
    rewind(stream);
    file.bytes = malloc(file.count + 1);
    if (file.bytes == NULL || fread(file.bytes, 1, file.count, stream) != file.count) {
        perror(path);
        exit(3);
    }
    (void)fclose(stream);
    return file;
}

/* What the loader's codec would have the library decode, found with its own parts. */
struct part {
    struct picture picture;
    uint32_t eighths;
};

static struct part find_part(void *decoder, const struct file *file, const struct image_request *request)
{
    char words[256];
    struct text problem;
    struct augment_view view;
    struct part part;
    uint32_t height, width;
    text_init(&problem, words, sizeof(words));
    bool is_read = picture_jpeg_ops.begin(decoder, file->bytes, file->count, &height, &width, &problem) == 0;
    if (is_read) {
        augment_view(&augment, request, height, width, &view);
        const struct picture_request wish = { .view = &view, .shape = &request->shape };
        is_read = picture_jpeg_ops.read(decoder, &wish, &part.picture, &part.eighths, &problem) == 0;
    }
    if (!is_read) {
        (void)fprintf(stderr, "decode: %s\n", words);
        exit(3);
    }
    return part;
}

static void decode_bare(struct jpeg_decompress_struct *library, const struct file *file, const struct part *part,
                        uint8_t *pixels)
{
    const struct picture *const picture = &part->picture;
    jpeg_mem_src(library, file->bytes, file->count);
    (void)jpeg_read_header(library, TRUE);
    library->scale_num = part->eighths;
    library->scale_denom = PICTURE_FULL_EIGHTHS;
    library->out_color_space = picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    (void)jpeg_start_decompress(library);
    JDIMENSION left = picture->left, width = picture->width;
    if (width < library->output_width)
        jpeg_crop_scanline(library, &left, &width);
    if (picture->top > 0)
        (void)jpeg_skip_scanlines(library, picture->top);
    for (size_t y = 0; y < picture->height; y++) {
        JSAMPROW row = pixels + y * picture->channels * library->output_width % PIXEL_BYTES;
        (void)jpeg_read_scanlines(library, &row, 1);
    }
    jpeg_abort_decompress(library);
}

static double decode_ours(void *codec, const struct file *file, const struct image_request *request, uint8_t *sample)
{
    char problem[256];
    const struct stored_image image = { .key = "image", .bytes = file->bytes, .byte_count = file->count };
    const double begun = thread_seconds();
    if (image_encoded_ops.decode(codec, &image, request, sample, problem, sizeof(problem)) < 0) {
        (void)fprintf(stderr, "decode: %s\n", problem);
        exit(3);
    }
    return thread_seconds() - begun;
}

static double time_bare(struct jpeg_decompress_struct *library, const struct file *file, const struct part *part)
{
    static uint8_t pixels[PIXEL_BYTES + ROW_BYTES_MAX];
    const double begun = thread_seconds();
    decode_bare(library, file, part, pixels);
    return thread_seconds() - begun;
}

static double time_checksum(const struct file *file)
{
    const double begun = thread_seconds();
    (void)crc32c(file->bytes, file->count);
    return thread_seconds() - begun;
}

int main(int argc, char **argv)
{
    static uint8_t sample[SIDE * SIDE * 3];
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    void *codec, *decoder;
    if (argc < 3 || image_encoded_ops.open(&codec) < 0 || picture_jpeg_ops.open(&decoder) < 0) {
        (void)fprintf(stderr, "usage: decode ROUNDS FILE...\n");
        return 2;
    }
    library.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&library);
    for (int round = 0; round < atoi(argv[1]); round++) {
        double ours = 0, bare = 0, checksums = 0;
        for (int i = 2; i < argc; i++) {
            const struct file file = read_file(argv[i]);
            const struct image_request request = { .augment = &augment, .epoch = (uint32_t)round,
                                                   .position = (uint64_t)i, .shape = { SIDE, SIDE, 3 } };
            const struct part part = find_part(decoder, &file, &request);
            bare += time_bare(&library, &file, &part);
            checksums += time_checksum(&file);
            ours += decode_ours(codec, &file, &request, sample);
            free(file.bytes);
        }
        printf("%.0f images/s, the bare loop %.0f, ratio %.3f, checksums %.4f of ours\n", (argc - 2) / ours,
               (argc - 2) / bare, bare / ours, checksums / ours);
    }
    jpeg_destroy_decompress(&library);
    picture_jpeg_ops.close(decoder);
    image_encoded_ops.close(codec);
    return 0;
}
