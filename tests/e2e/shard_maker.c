/* For the end-to-end scripts: a shard of tf.train.Examples that no converter would write.
 *
 *     shard_maker FILE RECORDS SIDE [RECORD LABEL]    gray images of SIDE x SIDE, labels 0..9;
 *                                                     record RECORD (from 0) has LABEL instead
 *     shard_maker FILE RECORDS text                   Examples without an image
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "formats/tfrecord.h"

enum { SIDE_MAX = 512 };

static void write_record(FILE *out, const struct example_value *values, size_t count)
{
    static uint8_t payload[SIDE_MAX * SIDE_MAX + 1024];
    uint8_t header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
    const size_t bytes = example_write(values, count, payload);
    tfrecord_write_header(bytes, header);
    tfrecord_write_footer(payload, bytes, footer);
    fwrite(header, 1, sizeof(header), out);
    fwrite(payload, 1, bytes, out);
    fwrite(footer, 1, sizeof(footer), out);
}

static void write_image(FILE *out, unsigned record, size_t side, int64_t label)
{
    static uint8_t pixels[SIDE_MAX * SIDE_MAX];
    for (size_t i = 0; i < side * side; i++)
        pixels[i] = (uint8_t)(i * (record + 1) * 31 % 251);
    const struct example_value values[] = {
        { .name = "depth", .kind = FEATURE_INT64S, .int64 = 1 },
        { .name = "height", .kind = FEATURE_INT64S, .int64 = (int64_t)side },
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = side * side },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = label },
        { .name = "width", .kind = FEATURE_INT64S, .int64 = (int64_t)side },
    };
    write_record(out, values, sizeof(values) / sizeof(values[0]));
}

static void write_text(FILE *out, unsigned record)
{
    const struct example_value value = {
        .name = "sentence", .kind = FEATURE_BYTES, .bytes = "no image", .byte_count = 8
    };
    (void)record;
    write_record(out, &value, 1);
}

int main(int argc, char **argv)
{
    FILE *out = argc >= 4 ? fopen(argv[1], "wb") : NULL;
    if (out == NULL) {
        fprintf(stderr, "shard_maker: cannot write\n");
        return 1;
    }
    const unsigned records = (unsigned)strtoul(argv[2], NULL, 10);
    const size_t side = strtoul(argv[3], NULL, 10);
    if (side > SIDE_MAX)
        return 1;
    for (unsigned record = 0; record < records; record++) {
        const int is_other = argc == 6 && record == strtoul(argv[4], NULL, 10);
        if (strcmp(argv[3], "text") == 0)
            write_text(out, record);
        else
            write_image(out, record, side, is_other ? strtoll(argv[5], NULL, 10) : record % 10);
    }
    return fclose(out) == 0 ? 0 : 1;
}
