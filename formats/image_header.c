/* The headers of JPEG and PNG files. Called by the converters with the bytes in memory. */
#include "formats/image_header.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

#define SIDE_MAX 0x7fffffffu    /* the limit of the PNG format */
#define UPRIGHT 1u

#define MARK(text) text, sizeof(text) - 1

/* Signatures of other files that are often found among images. */
static const struct {
    size_t offset;
    const char *magic;
    size_t bytes;
    const char *problem;
} others[] = {
    { 0, MARK("GIF8"), "is a GIF" },
    { 0, MARK("BM"), "is a BMP" },
    { 0, MARK("II*\0"), "is a TIFF" },
    { 0, MARK("MM\0*"), "is a TIFF" },
    { 0, MARK("II+\0"), "is a TIFF" },
    { 0, MARK("MM\0+"), "is a TIFF" },
    { 8, MARK("WEBP"), "is a WebP" },
    { 0, MARK("RIFF"), "is a WebP, or another RIFF file" },
    { 0, MARK("\0\0\0\x0cjP  "), "is a JPEG 2000" },
    { 0, MARK("\xff\x4f\xff\x51"), "is a JPEG 2000" },
    { 0, MARK("\xff\x0a"), "is a JPEG XL" },
    { 0, MARK("\0\0\0\x0cJXL "), "is a JPEG XL" },
    { 4, MARK("ftyphei"), "is a HEIC, as telephones save photos" },
    { 4, MARK("ftyphev"), "is a HEIC, as telephones save photos" },
    { 4, MARK("ftypmif"), "is a HEIC or AVIF" },
    { 4, MARK("ftypmsf"), "is a HEIC or AVIF" },
    { 4, MARK("ftypavi"), "is an AVIF" },
    { 4, MARK("ftypcrx"), "is a raw photo of a camera" },
    { 4, MARK("ftyp"), "is a video" },
    { 0, MARK("8BPS"), "is a Photoshop file" },
    { 0, MARK("v/1\x01"), "is an OpenEXR" },
    { 0, MARK("#?RADIANCE"), "is a Radiance HDR" },
    { 0, MARK("DDS "), "is a DDS" },
    { 0, MARK("qoif"), "is a QOI" },
    { 0, MARK("\0\0\1\0"), "is an ICO" },
    { 128, MARK("DICM"), "is a DICOM" },
    { 0, MARK("FUJIFILMCCD-RAW"), "is a raw photo of a camera" },
    { 0, MARK("<"), "is HTML, SVG or XML text" },
    { 0, MARK("%PDF"), "is a PDF" },
    { 0, MARK("version https://git-lfs"), "is only a Git LFS pointer to the image: fetch it with git lfs pull" },
    { 0, MARK("\x1f\x8b"), "is compressed with gzip" },
    { 0, MARK("\xfd" "7zXZ"), "is compressed with xz" },
    { 0, MARK("\x28\xb5\x2f\xfd"), "is compressed with Zstandard" },
    { 0, MARK("BZh"), "is compressed with bzip2" },
    { 0, MARK("PK\x03\x04"), "is a ZIP archive" },
    { 0, MARK("7z\xbc\xaf\x27\x1c"), "is a 7z archive" },
    { 0, MARK("Rar!"), "is a RAR archive" },
    { 257, MARK("ustar"), "is a tar archive" },
    { 0, MARK("\x93NUMPY"), "is a NumPy array" },
    { 0, MARK("\x89HDF\r\n\x1a\n"), "is an HDF5 file" },
    { 0, MARK("MATLAB "), "is a MATLAB file" },
    { 0, MARK("PAR1"), "is a Parquet file" },
    { 0, MARK("\x80\x02"), "is a Python pickle" },
    { 0, MARK("\x80\x03"), "is a Python pickle" },
    { 0, MARK("\x80\x04"), "is a Python pickle" },
    { 0, MARK("\x80\x05"), "is a Python pickle" },
};

static const uint8_t png_signature[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
static const uint8_t jpeg_signature[3] = { 0xff, 0xd8, 0xff };

static uint32_t get_be16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get_be32(const uint8_t *at)
{
    return get_be16(at) << 16 | get_be16(at + 2);
}

/* Does the data begin with `begin`? Data shorter than `begin` is compared as far as it goes. */
static bool begins_with(const uint8_t *data, size_t bytes, const void *begin, size_t begin_bytes)
{
    return memcmp(data, begin, bytes < begin_bytes ? bytes : begin_bytes) == 0;
}

static int image_refuse(const char *problem, const char **problem_out)
{
    *problem_out = problem;
    return -EBADMSG;
}

static int read_png(const uint8_t *data, size_t bytes, struct image_header *header_out, const char **problem_out)
{
    /* number of channels of each colour type */
    static const uint8_t channels[7] = { [0] = 1, [2] = 3, [3] = 3, [4] = 2, [6] = 4 };
    static const uint8_t header_chunk[8] = { 0, 0, 0, 13, 'I', 'H', 'D', 'R' };

    if (bytes < 29)
        return -EAGAIN;
    const uint32_t width = get_be32(data + 16), height = get_be32(data + 20);
    if (memcmp(data + 8, header_chunk, sizeof(header_chunk)) != 0)
        return image_refuse("is a PNG without its header", problem_out);
    if (width == 0 || width > SIDE_MAX || height == 0 || height > SIDE_MAX)
        return image_refuse("is a PNG with an impossible size", problem_out);
    if (data[25] >= sizeof(channels) || channels[data[25]] == 0)
        return image_refuse("is a PNG with an unknown kind of color", problem_out);
    *header_out = (struct image_header){ IMAGE_FORMAT_PNG, width, height, channels[data[25]], UPRIGHT };
    return 0;
}

/* Is it a frame header's marker? These are C0 ... CF except DHT (C4), JPG (C8, reserved) and DAC (CC). */
static bool is_frame(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Does the marker have no segment? These are TEM, RST0 ... RST7 and a second SOI. */
static bool is_alone(uint8_t marker)
{
    return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8);
}

/* `segment` is the frame header after its length field. */
static int read_frame(const uint8_t *segment, size_t bytes, struct image_header *header_out, const char **problem_out)
{
    if (bytes < 6)
        return image_refuse("is a JPEG whose frame header is damaged", problem_out);
    const uint32_t height = get_be16(segment + 1), width = get_be16(segment + 3), channels = segment[5];
    /* A height of 0 would mean that the height follows the first scan (DNL); no encoder writes this. */
    if (width == 0 || height == 0)
        return image_refuse("is a JPEG with an impossible size", problem_out);
    if (channels != 1 && channels != 3 && channels != 4)
        return image_refuse("is a JPEG with neither 1, 3 nor 4 channels", problem_out);
    *header_out = (struct image_header){ IMAGE_FORMAT_JPEG, width, height, channels, UPRIGHT };
    return 0;
}

/* Read a number of `count` bytes from EXIF data, which is a TIFF file in either byte order. */
static uint32_t get_tiff(const uint8_t *at, size_t count, bool is_little)
{
    uint32_t number = 0;

    for (size_t i = 0; i < count; i++)
        number = number << 8 | at[is_little ? count - 1 - i : i];
    return number;
}

/* The orientation in an APP1 segment; UPRIGHT if the segment is not valid EXIF. It is a SHORT; Pillow turns by a LONG,
 * too, which some editors write. */
static uint32_t read_orientation(const uint8_t *segment, size_t bytes)
{
    static const char exif[6] = "Exif\0";
    static const uint32_t tag = 0x0112, type_short = 3, type_long = 4;
    const uint8_t *const tiff = segment + sizeof(exif);

    if (bytes < sizeof(exif) + 8 || memcmp(segment, exif, sizeof(exif)) != 0 ||
        (memcmp(tiff, "II", 2) != 0 && memcmp(tiff, "MM", 2) != 0))
        return UPRIGHT;
    const size_t tiff_bytes = bytes - sizeof(exif);
    const bool is_little = tiff[0] == 'I';
    const size_t directory = get_tiff(tiff + 4, 4, is_little);
    if (directory > tiff_bytes || tiff_bytes - directory < 2)
        return UPRIGHT;
    const size_t wanted = get_tiff(tiff + directory, 2, is_little), there = (tiff_bytes - directory - 2) / 12;
    const uint8_t *entry = tiff + directory + 2;
    for (size_t i = 0; i < wanted && i < there; i++, entry += 12) {
        const uint32_t type = get_tiff(entry + 2, 2, is_little);
        if (get_tiff(entry, 2, is_little) != tag || (type != type_short && type != type_long))
            continue;
        const uint32_t value = get_tiff(entry + 8, type == type_long ? 4 : 2, is_little);
        return value >= 1 && value <= 8 ? value : UPRIGHT;
    }
    return UPRIGHT;
}

/* Walk from marker to marker up to the first frame header. Bytes between segments are skipped, as decoders do. */
static int read_jpeg(const uint8_t *data, size_t bytes, struct image_header *header_out, const char **problem_out)
{
    uint32_t orientation = UPRIGHT;
    size_t at = 2;

    while (bytes - at >= 4) {
        const uint8_t marker = data[at + 1];
        if (data[at] != 0xff || marker == 0xff || marker == 0) {
            at++;
            continue;
        }
        if (is_alone(marker)) {
            at += 2;
            continue;
        }
        if (marker == 0xd9 || marker == 0xda)
            return image_refuse("is a JPEG without a frame", problem_out);
        const size_t segment_bytes = get_be16(data + at + 2);
        if (segment_bytes < 2)
            return image_refuse("is a JPEG with a damaged segment", problem_out);
        if (bytes - at - 2 < segment_bytes)
            return -EAGAIN;
        if (is_frame(marker)) {
            const int rc = read_frame(data + at + 4, segment_bytes - 2, header_out, problem_out);
            if (rc == 0)
                header_out->orientation = orientation;
            return rc;
        }
        if (marker == 0xe1 && orientation == UPRIGHT)
            orientation = read_orientation(data + at + 4, segment_bytes - 2);
        at += 2 + segment_bytes;
    }
    return -EAGAIN;
}

const char *image_other_kind(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (bytes >= others[i].offset + others[i].bytes &&
            memcmp(data + others[i].offset, others[i].magic, others[i].bytes) == 0)
            return others[i].problem;
    }
    if (bytes >= 3 && data[0] == 'P' && data[1] >= '1' && data[1] <= '7' && isspace(data[2]))
        return "is a PNM";
    return NULL;
}

static const char *what_else(const uint8_t *data, size_t bytes)
{
    const char *const kind = image_other_kind(data, bytes);
    return kind != NULL ? kind : "is no image";
}

int image_header_read(const uint8_t *data, size_t bytes, struct image_header *header_out, const char **problem_out)
{
    if (bytes == 0)
        return image_refuse("is empty", problem_out);
    if (begins_with(data, bytes, png_signature, sizeof(png_signature)))
        return read_png(data, bytes, header_out, problem_out);
    if (!begins_with(data, bytes, jpeg_signature, sizeof(jpeg_signature)))
        return image_refuse(what_else(data, bytes), problem_out);
    return bytes < sizeof(jpeg_signature) ? -EAGAIN : read_jpeg(data, bytes, header_out, problem_out);
}

/* Walk the segments up to the first scan. Scan data has no length, so the end marker is searched for after it. */
static bool jpeg_is_cut(const uint8_t *data, size_t bytes)
{
    static const uint8_t scan[2] = { 0xff, 0xda }, end[2] = { 0xff, 0xd9 };
    size_t at = 2;

    while (bytes - at >= 4 && memcmp(data + at, scan, sizeof(scan)) != 0) {
        const bool is_segment = data[at] == 0xff && data[at + 1] != 0xff && data[at + 1] != 0 &&
                                !is_alone(data[at + 1]);
        const size_t step = is_segment ? 2 + (size_t)get_be16(data + at + 2) : 1;
        if (step > bytes - at)
            return true;
        at += step;
    }
    return memmem(data + at, bytes - at, end, sizeof(end)) == NULL;
}

static bool png_is_cut(const uint8_t *data, size_t bytes)
{
    size_t at = sizeof(png_signature);

    while (bytes - at >= 12) {
        const uint64_t chunk = (uint64_t)get_be32(data + at) + 12;
        if (chunk > bytes - at)
            return true;
        if (memcmp(data + at + 4, "IEND", 4) == 0)
            return false;
        at += chunk;
    }
    return true;
}

bool image_png_is_intact(const uint8_t *data, size_t bytes)
{
    size_t at = sizeof(png_signature);

    while (bytes - at >= 12) {
        const uint64_t chunk = (uint64_t)get_be32(data + at) + 12;
        if (chunk > bytes - at)
            return false;
        const uint8_t *const kind = data + at + 4, *const crc = data + at + chunk - 4;
        if (crc32_z(0, kind, (size_t)(crc - kind)) != get_be32(crc))
            return false;
        if (memcmp(kind, "IEND", 4) == 0)
            return true;
        at += chunk;
    }
    return false;
}

bool image_is_cut(const uint8_t *data, size_t bytes, enum image_format format)
{
    return format == IMAGE_FORMAT_JPEG ? jpeg_is_cut(data, bytes) : png_is_cut(data, bytes);
}
