/* Tests of reading the headers of images: both formats, each way of being wrong, and cuts. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/image_header.h"
#include "tests/helpers/test.h"

/* A file's bytes on the heap, so that a step over their end is seen. */
static int read_bytes(const void *data, size_t bytes, struct image_header *header_out, const char **problem_out)
{
    uint8_t *own = malloc(bytes ? bytes : 1);

    assert_non_null(own);
    memcpy(own, data, bytes);
    const int rc = image_header_read(own, bytes, header_out, problem_out);
    free(own);
    return rc;
}

#define EXPECT_IMAGE(file, wanted_format, wanted_width, wanted_height, wanted_channels) do {    \
        struct image_header header;                                                             \
        const char *problem;                                                                    \
        assert_int_equal(read_bytes(file, sizeof(file), &header, &problem), 0);                 \
        assert_int_equal(header.format, wanted_format);                                         \
        assert_int_equal(header.width, wanted_width);                                           \
        assert_int_equal(header.height, wanted_height);                                         \
        assert_int_equal(header.channels, wanted_channels);                                     \
    } while (0)

static void expect_problem(const void *data, size_t bytes, const char *words)
{
    struct image_header header;
    const char *problem = "";

    assert_int_equal(read_bytes(data, bytes, &header, &problem), -EBADMSG);
    assert_non_null(strstr(problem, words));
}

static const uint8_t png[29] = {
    0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 1, 2, 0, 0, 0, 7, 8, 2, 0, 0, 0,
};
/* An APP0 segment, a stray byte, a fill byte and a progressive frame of 3 channels, 5 high and 300 wide. */
static const uint8_t jpeg[] = {
    0xff, 0xd8, 0xff, 0xe0, 0, 4, 'J', 'F', 0x55, 0xff, 0xff, 0xc2, 0, 17, 8, 0, 5, 1, 44, 3, 1, 0x22, 0, 2, 0x11, 1, 3,
    0x11, 1,
};

TEST(reads_sizes_and_channels_of_both_formats)
{
    static const uint8_t channels[][2] = { { 0, 1 }, { 2, 3 }, { 3, 3 }, { 4, 2 }, { 6, 4 } };
    uint8_t file[sizeof(png)];

    EXPECT_IMAGE(png, IMAGE_FORMAT_PNG, 258, 7, 3);
    EXPECT_IMAGE(jpeg, IMAGE_FORMAT_JPEG, 300, 5, 3);
    memcpy(file, png, sizeof(png));
    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
        file[25] = channels[i][0];
        EXPECT_IMAGE(file, IMAGE_FORMAT_PNG, 258, 7, channels[i][1]);
    }
}

TEST(takes_tables_for_no_frame)
{
    static const uint8_t file[] = {
        0xff, 0xd8, 0xff, 0xc4, 0, 8, 0, 9, 9, 9, 9, 7, 0xff, 0xcc, 0, 2, 0xff, 0xd0, 0xff, 0xc0, 0, 11, 8, 0, 2, 0, 3,
        1, 1, 0x11, 0,
    };

    EXPECT_IMAGE(file, IMAGE_FORMAT_JPEG, 3, 2, 1);
}

/* The comment ends with what begins a frame anywhere else. */
TEST(takes_nothing_in_a_segment_for_a_marker)
{
    static const uint8_t file[] = { 0xff, 0xd8, 0xff, 0xfe, 0, 6, 'a', 'b', 0xff, 0xc0,
                                    0xff, 0xc0, 0, 11, 8, 0, 2, 0, 3, 1, 1, 0x11, 0 };

    EXPECT_IMAGE(file, IMAGE_FORMAT_JPEG, 3, 2, 1);
}

/* A JPEG with EXIF data in front of its frame: a TIFF in this order of bytes with `entries`, of which the last says
 * the orientation. Returns its bytes. */
static size_t with_orientation(uint8_t *out, bool is_little, uint8_t entries, uint8_t orientation)
{
    static const uint8_t begin[] = { 0xff, 0xd8, 0xff, 0xe1, 0, 0, 'E', 'x', 'i', 'f', 0, 0 };
    static const uint8_t frame[] = { 0xff, 0xc0, 0, 11, 8, 0, 2, 0, 3, 1, 1, 0x11, 0 };
    size_t bytes = sizeof(begin);

    memcpy(out, begin, sizeof(begin));
    memcpy(out + bytes, is_little ? "II*\0\x08\0\0\0" : "MM\0*\0\0\0\x08", 8);
    bytes += 8;
    out[bytes + (is_little ? 0 : 1)] = entries;
    out[bytes + (is_little ? 1 : 0)] = 0;
    bytes += 2;
    for (uint8_t i = 0; i < entries; i++, bytes += 12) {
        const uint8_t tag = i + 1 < entries ? 0x0f : 0x12;
        static const uint8_t little[12] = { 0, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0 };
        static const uint8_t big[12] = { 1, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0 };
        memcpy(out + bytes, is_little ? little : big, 12);
        out[bytes + (is_little ? 0 : 1)] = tag;
        out[bytes + (is_little ? 8 : 9)] = tag == 0x12 ? orientation : 9;
    }
    out[5] = (uint8_t)(bytes - 4);
    memcpy(out + bytes, frame, sizeof(frame));
    return bytes + sizeof(frame);
}

static uint32_t read_orientation(const uint8_t *file, size_t bytes)
{
    struct image_header header;
    const char *problem;
    assert_int_equal(read_bytes(file, bytes, &header, &problem), 0);
    assert_int_equal(header.width, 3);
    return header.orientation;
}

TEST(reads_the_orientation_of_cameras)
{
    uint8_t file[256];
    for (int is_little = 0; is_little < 2; is_little++)
        for (uint8_t entries = 1; entries < 4; entries++)
            for (uint8_t value = 0; value < 10; value++) {
                const uint32_t wanted = value >= 1 && value <= 8 ? value : 1;
                const size_t bytes = with_orientation(file, is_little, entries, value);
                assert_int_equal(read_orientation(file, bytes), wanted);
            }
}

/* Some editors write a LONG; a BYTE is not read, as in Pillow. */
TEST(an_orientation_may_be_a_long)
{
    enum { ENTRY = 22 };
    uint8_t file[256];
    for (int is_little = 0; is_little < 2; is_little++)
        for (uint8_t type = 1; type < 6; type++) {
            const size_t bytes = with_orientation(file, is_little, 1, 6);
            file[ENTRY + (is_little ? 2 : 3)] = type;
            if (!is_little && type == 4) {
                file[ENTRY + 9] = 0;
                file[ENTRY + 11] = 6;
            }
            assert_int_equal(read_orientation(file, bytes), type == 3 || type == 4 ? 6 : 1);
        }
}

/* XMP is in a segment of the same kind. */
TEST(the_orientation_is_found_before_and_after_other_segments)
{
    static const uint8_t other[] = { 0xff, 0xe1, 0, 9, 'h', 't', 't', 'p', ':', '/', '/' };
    uint8_t file[256], with_other[256 + sizeof(other)];
    const size_t bytes = with_orientation(file, true, 1, 6), end = 4 + ((size_t)file[4] << 8 | file[5]);
    const size_t places[] = { 2, end };
    for (size_t i = 0; i < 2; i++) {
        const size_t at = places[i];
        memcpy(with_other, file, at);
        memcpy(with_other + at, other, sizeof(other));
        memcpy(with_other + at + sizeof(other), file + at, bytes - at);
        assert_int_equal(read_orientation(with_other, bytes + sizeof(other)), 6);
    }
}

TEST(the_orientation_of_a_png_is_not_read)
{
    static const uint8_t file[] = {
        0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 3, 0, 0, 0, 2,
        8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 26, 'e', 'X', 'I', 'f', 'M', 'M', 0, '*', 0, 0, 0, 8, 0, 1,
        1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    };
    assert_int_equal(read_orientation(file, sizeof(file)), 1);
}

TEST(nothing_of_damaged_exif_data_is_believed)
{
    uint8_t file[256];
    const size_t bytes = with_orientation(file, true, 1, 6);
    for (size_t i = 6; i < 34; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            file[i] ^= (uint8_t)(1u << bit);
            assert_in_range(read_orientation(file, bytes), 1, 8);
            file[i] ^= (uint8_t)(1u << bit);
        }
}

TEST(a_file_without_its_end_is_cut)
{
    static const uint8_t whole_jpeg[] = {
        0xff, 0xd8, 0xff, 0xe1, 0, 6, 0xff, 0xd9, 0xff, 0xd9,      /* as of a small image in the EXIF data */
        0xff, 0xc0, 0, 11, 8, 0, 2, 0, 3, 1, 1, 0x11, 0,
        0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 1, 2, 3, 0xff, 0, 4, 0xff, 0xd9,
    };
    static const uint8_t whole_png[] = {
        0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 3, 0, 0, 0, 2, 8,
        2, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 3, 'I', 'D', 'A', 'T', 1, 2, 3, 5, 6, 7, 8,
        0, 0, 0, 0, 'I', 'E', 'N', 'D', 1, 2, 3, 4,
    };
    static const struct { const uint8_t *data; size_t bytes, header; enum image_format format; } files[] = {
        { whole_jpeg, sizeof(whole_jpeg), 23, IMAGE_FORMAT_JPEG },
        { whole_png, sizeof(whole_png), 29, IMAGE_FORMAT_PNG },
    };
    for (size_t i = 0; i < 2; i++) {
        uint8_t longer[sizeof(whole_png) + 5] = { 0 };
        for (size_t cut = files[i].header; cut <= files[i].bytes; cut++) {
            uint8_t *const own = malloc(cut);
            assert_non_null(own);
            memcpy(own, files[i].data, cut);
            assert_int_equal(image_is_cut(own, cut, files[i].format), cut < files[i].bytes);
            free(own);
        }
        memcpy(longer, files[i].data, files[i].bytes);      /* more behind the end does not matter */
        assert_false(image_is_cut(longer, files[i].bytes + 5, files[i].format));
    }
}

TEST(asks_for_more_when_cut_inside_the_header)
{
    struct image_header header;
    const char *problem;

    for (size_t cut = 1; cut < sizeof(png); cut++)
        assert_int_equal(read_bytes(png, cut, &header, &problem), -EAGAIN);
    for (size_t cut = 1; cut < sizeof(jpeg); cut++)
        assert_int_equal(read_bytes(jpeg, cut, &header, &problem), -EAGAIN);
}

TEST(says_what_other_files_are)
{
    expect_problem("", 0, "is empty");
    expect_problem("GIF89a", 6, "is a GIF");
    expect_problem("BM", 2, "is a BMP");
    expect_problem("RIFF....WEBP", 12, "WebP");
    for (unsigned box = 8; box < 64; box += 4) {
        char heif[12] = { 0, 0, 0, (char)box, 'f', 't', 'y', 'p' };
        static const char *const brands[][2] = { { "heic", "HEIC" }, { "heix", "HEIC" }, { "hevc", "HEIC" },
                                                 { "mif1", "HEIC or AVIF" }, { "avif", "AVIF" }, { "isom", "video" } };
        for (size_t i = 0; i < sizeof(brands) / sizeof(brands[0]); i++) {
            memcpy(heif + 8, brands[i][0], 4);
            expect_problem(heif, sizeof(heif), brands[i][1]);
        }
    }
    expect_problem("\0\0\0\x0cJXL \r\n", 10, "JPEG XL");
    expect_problem("PK\3\4....", 8, "is a ZIP archive");
    expect_problem("<html>", 6, "HTML");
    expect_problem("version https://git-lfs.github.com", 34, "Git LFS");
    expect_problem("P5\n2 2\n255\n....", 14, "is a PNM");
    expect_problem("P3 2 2 255 0 0 0 0", 18, "is a PNM");
    expect_problem("P9\n2 2\n", 7, "is no image");
    expect_problem("P5", 2, "is no image");
    expect_problem("plain text", 10, "is no image");
    expect_problem("B", 1, "is no image");
}

TEST(refuses_headers_no_decoder_could_use)
{
    static const uint8_t no_frame[] = { 0xff, 0xd8, 0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0 };
    static const uint8_t short_segment[] = { 0xff, 0xd8, 0xff, 0xe0, 0, 1, 1, 1 };
    static const uint8_t short_frame[] = { 0xff, 0xd8, 0xff, 0xc0, 0, 5, 8, 0, 2 };
    uint8_t file[sizeof(jpeg)];

    expect_problem(no_frame, sizeof(no_frame), "without a frame");
    expect_problem(short_segment, sizeof(short_segment), "damaged segment");
    expect_problem(short_frame, sizeof(short_frame), "frame header is damaged");
    memcpy(file, jpeg, sizeof(jpeg));
    file[19] = 2;
    expect_problem(file, sizeof(jpeg), "channels");
    file[15] = file[16] = 0;
    expect_problem(file, sizeof(jpeg), "impossible size");
    memcpy(file, png, sizeof(png));
    file[25] = 5;
    expect_problem(file, sizeof(png), "kind of color");
    file[20] = 0x80;
    expect_problem(file, sizeof(png), "impossible size");
    file[15] = 'X';
    expect_problem(file, sizeof(png), "without its header");
}

TESTS_MAIN(NULL, NULL)
