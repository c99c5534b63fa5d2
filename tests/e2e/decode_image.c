/* For the end-to-end scripts: an image file as the loader decodes it, in its own size and channels, as PPM or PGM on
 * stdout.
 *
 *     decode_image FILE
 *
 * Exit code 3, with the loader's words on stderr, where it is refused.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/image_header.h"
#include "loader/images/image.h"

enum { FILE_MAX = 1 << 26, REFUSED = 3 };

/* A file to the end of which room is left; exits where it cannot be read. */
static uint8_t *read_file(const char *path, size_t *bytes_out)
{
    uint8_t *const bytes = malloc(FILE_MAX);
    FILE *const file = fopen(path, "rb");
    if (file == NULL || bytes == NULL) {
        perror(path);
        exit(1);
    }
    *bytes_out = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    return bytes;
}

/* Of what has no header that can be read, the decoder is asked for something all the same: the words are its own. */
static struct image_shape own_shape(const uint8_t *bytes, size_t byte_count)
{
    struct image_header header;
    const char *problem;
    if (image_header_read(bytes, byte_count, &header, &problem) < 0)
        return (struct image_shape){ 8, 8, 3 };
    return (struct image_shape){ header.height, header.width, header.channels < 3 ? 1 : 3 };
}

static int print_pixels(const struct image_shape *shape, const uint8_t *pixels, size_t bytes)
{
    printf("P%d\n%u %u\n255\n", shape->channels == 1 ? 5 : 6, shape->width, shape->height);
    return fwrite(pixels, 1, bytes, stdout) == bytes && fflush(stdout) == 0 ? 0 : 1;
}

static int decode(const struct stored_image *image)
{
    const struct image_request request = { .shape = own_shape(image->bytes, image->byte_count) };
    char problem[512] = "";
    size_t bytes;
    void *codec;
    uint8_t *const pixels = image_shape_bytes(&request.shape, &bytes) ? malloc(bytes) : NULL;
    if (pixels == NULL || image_encoded_ops.open(&codec) < 0)
        return 1;
    int rc = REFUSED;
    if (image_encoded_ops.decode(codec, image, &request, pixels, problem, sizeof(problem)) < 0)
        fprintf(stderr, "%s\n", problem);
    else
        rc = print_pixels(&request.shape, pixels, bytes);
    image_encoded_ops.close(codec);
    free(pixels);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: decode_image FILE\n");
        return 2;
    }
    struct stored_image image = { .key = "image" };
    uint8_t *const bytes = read_file(argv[1], &image.byte_count);
    image.bytes = bytes;
    const int rc = decode(&image);
    free(bytes);
    return rc;
}
