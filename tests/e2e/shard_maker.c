/* For the end-to-end scripts: a shard of tf.train.Examples that no converter would write.
 *
 *     shard_maker FILE RECORDS SIDE [RECORD LABEL]    gray images of SIDE x SIDE, labels 0..9;
 *                                                     record RECORD (from 0) has LABEL instead
 *     shard_maker FILE RECORDS SIDE bright RECORD     gray images, all black but that one
 *     shard_maker FILE RECORDS SIDE bare              gray images without their sizes
 *     shard_maker FILE RECORDS text                   Examples without an image
 *     shard_maker FILE RECORDS integers               images of 28 x 28 integers, "dots", and no label
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "formats/tfrecord.h"

enum { SIDE_MAX = 512 };

static void write_payload(FILE *out, const uint8_t *payload, size_t bytes)
{
    uint8_t header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
    tfrecord_write_header(bytes, header);
    tfrecord_write_footer(payload, bytes, footer);
    fwrite(header, 1, sizeof(header), out);
    fwrite(payload, 1, bytes, out);
    fwrite(footer, 1, sizeof(footer), out);
}

static void write_record(FILE *out, const struct example_value *values, size_t count)
{
    static uint8_t payload[SIDE_MAX * SIDE_MAX + 1024];
    write_payload(out, payload, example_write(values, count, payload));
}

/* A packed list in a Feature in an entry in Features in an Example. */
static void write_integers(FILE *out, unsigned record)
{
    static const uint8_t tags[] = { 0x0a, 0xa2, 6, 0x0a, 0x9f, 6,    0x0a, 4,    'd', 'o',
                                    't',  's',  0x12, 0x96, 6, 0x1a, 0x93, 6, 0x0a, 0x90, 6 };
    uint8_t payload[sizeof(tags) + 784];
    memcpy(payload, tags, sizeof(tags));
    memset(payload + sizeof(tags), (int)(record % 128), 784);
    write_payload(out, payload, sizeof(payload));
}

static void write_image(FILE *out, unsigned record, size_t side, int64_t label, int is_black, int is_bare)
{
    static uint8_t pixels[SIDE_MAX * SIDE_MAX];
    for (size_t i = 0; i < side * side; i++)
        pixels[i] = is_black ? 0 : (uint8_t)(i * (record + 1) * 31 % 251);
    const struct example_value values[] = {
        { .name = "depth", .kind = FEATURE_INT64S, .int64 = 1 },
        { .name = "height", .kind = FEATURE_INT64S, .int64 = (int64_t)side },
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = side * side },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = label },
        { .name = "width", .kind = FEATURE_INT64S, .int64 = (int64_t)side },
    };
    if (is_bare)
        write_record(out, values + 2, 2);
    else
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
        const int has_bright = argc == 6 && strcmp(argv[4], "bright") == 0;
        const int is_other = argc == 6 && !has_bright && record == strtoul(argv[4], NULL, 10);
        const int is_bare = argc == 5 && strcmp(argv[4], "bare") == 0;
        const int is_black = has_bright && record != strtoul(argv[5], NULL, 10);
        if (strcmp(argv[3], "text") == 0)
            write_text(out, record);
        else if (strcmp(argv[3], "integers") == 0)
            write_integers(out, record);
        else
            write_image(out, record, side, is_other ? strtoll(argv[5], NULL, 10) : record % 10, is_black,
                        is_bare);
    }
    return fclose(out) == 0 ? 0 : 1;
}
