/* Writes JPEG files. Called by the writing threads. libjpeg reports errors through a function that must not return,
 * so every library call that can fail is made in jpeg_write or jpeg_writer_open, after their setjmp. */
#include "tools/convert/jpeg_write.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

struct jpeg_writer {
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    jmp_buf escape;             /* where a failing library call jumps to */
    unsigned char *file;        /* the last file; allocated by the library */
    unsigned long file_bytes;
    int quality;
};

static void on_error(j_common_ptr library)
{
    struct jpeg_writer *const writer = library->client_data;
    longjmp(writer->escape, 1);
}

static void print_nothing(j_common_ptr library)
{
    (void)library;
}

int jpeg_writer_open(struct jpeg_writer **writer_out, int quality)
{
    struct jpeg_writer *const writer = calloc(1, sizeof(*writer));

    if (writer == NULL)
        return -ENOMEM;
    writer->quality = quality;
    writer->library.err = jpeg_std_error(&writer->errors);
    writer->library.client_data = writer;
    writer->errors.error_exit = on_error;
    writer->errors.output_message = print_nothing;
    if (setjmp(writer->escape) != 0) {
        jpeg_writer_close(writer);
        return -ENOMEM;
    }
    jpeg_create_compress(&writer->library);
    *writer_out = writer;
    return 0;
}

void jpeg_writer_close(struct jpeg_writer *writer)
{
    if (writer == NULL)
        return;
    jpeg_destroy_compress(&writer->library);
    free(writer->file);
    free(writer);
}

/* Reset all settings, so that no file depends on the previous one. */
static void set_up(struct jpeg_writer *writer, const struct image_shape *shape)
{
    struct jpeg_compress_struct *const library = &writer->library;

    free(writer->file);
    writer->file = NULL;
    jpeg_mem_dest(library, &writer->file, &writer->file_bytes);
    library->image_width = shape->width;
    library->image_height = shape->height;
    library->input_components = (int)shape->channels;
    library->in_color_space = shape->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(library);
    jpeg_set_quality(library, writer->quality, TRUE);
}

static void write_rows(struct jpeg_writer *writer, const uint8_t *pixels, size_t row_bytes)
{
    struct jpeg_compress_struct *const library = &writer->library;

    while (library->next_scanline < library->image_height) {
        /* The library does not change its input rows. */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + library->next_scanline * row_bytes);
        (void)jpeg_write_scanlines(library, &row, 1);
    }
}

int jpeg_write(struct jpeg_writer *writer, const uint8_t *pixels, const struct image_shape *shape,
               const uint8_t **bytes_out, size_t *byte_count_out, char *problem_out, size_t problem_size)
{
    if (setjmp(writer->escape) != 0) {
        char message[JMSG_LENGTH_MAX];
        writer->errors.format_message((j_common_ptr)&writer->library, message);
        snprintf(problem_out, problem_size, "cannot be encoded as JPEG: %s", message);
        jpeg_abort_compress(&writer->library);
        writer->file = NULL;        /* allocated by the library, which may have moved it */
        return writer->errors.msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EBADMSG;
    }
    set_up(writer, shape);
    jpeg_start_compress(&writer->library, TRUE);
    write_rows(writer, pixels, (size_t)shape->width * shape->channels);
    jpeg_finish_compress(&writer->library);
    *bytes_out = writer->file;
    *byte_count_out = writer->file_bytes;
    return 0;
}
