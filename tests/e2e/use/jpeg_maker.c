/* For the end-to-end scripts: JPEG files that a network can learn to tell apart.
 *
 *     jpeg_maker FOLDER CLASSES COUNT     FOLDER/class0/0.jpg ...: COUNT images of each class, grey, of several sizes,
 *                                         with stripes whose direction is that of the class
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tools/convert/jpeg_write.h"

enum { SIDE_LEAST = 20, SIDE_MOST = 40, PATH_BYTES = 4096 };

static void draw(uint8_t *pixels, const struct image_shape *shape, double angle, double phase)
{
    for (uint32_t y = 0; y < shape->height; y++)
        for (uint32_t x = 0; x < shape->width; x++) {
            const double along = (x * cos(angle) + y * sin(angle)) * 6.3 / SIDE_LEAST * 3;
            pixels[y * shape->width + x] = (uint8_t)(128 + 100 * sin(along + phase));
        }
}

static void write_file(const char *folder, unsigned kind, unsigned number, const uint8_t *bytes, size_t count)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/class%u/%u.jpg", folder, kind, number);
    FILE *const file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, count, file) != count || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static uint8_t pixels[SIDE_MOST * SIDE_MOST];
    struct jpeg_writer *writer;
    if (argc != 4 || jpeg_writer_open(&writer, 95) != 0)
        return 2;
    const unsigned kinds = (unsigned)atoi(argv[2]), count = (unsigned)atoi(argv[3]);
    mkdir(argv[1], 0777);
    for (unsigned kind = 0; kind < kinds; kind++) {
        char path[PATH_BYTES], problem[256];
        snprintf(path, sizeof(path), "%s/class%u", argv[1], kind);
        mkdir(path, 0777);
        for (unsigned i = 0; i < count; i++) {
            const uint32_t side = SIDE_LEAST + (kind * 7 + i * 3) % (SIDE_MOST - SIDE_LEAST);
            const struct image_shape shape = { side, SIDE_MOST, 1 };
            const uint8_t *bytes;
            size_t byte_count;
            draw(pixels, &shape, kind * 3.14 / kinds + 0.02 * (i % 9), i);
            if (jpeg_write(writer, pixels, &shape, &bytes, &byte_count, problem, sizeof(problem)) != 0)
                return 1;
            write_file(argv[1], kind, i, bytes, byte_count);
        }
    }
    jpeg_writer_close(writer);
    return 0;
}
