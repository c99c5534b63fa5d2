/* Recognises files by their first bytes, for messages only. Called while a data set is opened. */
#include "loader/shards/shard_kind.h"

#include <ctype.h>
#include <string.h>

#include "formats/html.h"

/* Shorter texts are not judged. */
#define TEXT_BYTES_MIN 4u

struct signature {
    size_t offset, bytes;
    const char *magic;
    const char *text;
};

static const struct signature containers[] = {
    { 0, 2, "\x1f\x8b", "it is compressed twice: decompress it once with gzip -d" },
    { 0, 4, "\x04\x22\x4d\x18", "it is compressed twice: decompress it once with lz4 -d" },
    { 0, 4, "\x02\x21\x4c\x18", "it is in the old format of LZ4: decompress it with lz4 -d" },
    { 0, 4, "\x28\xb5\x2f\xfd", "it is compressed with Zstandard: decompress it with zstd -d" },
    { 0, 6, "\xfd" "7zXZ", "it is compressed with xz: decompress it with xz -d" },
    { 0, 3, "BZh", "it is compressed with bzip2: decompress it with bzip2 -d" },
    { 0, 4, "PK\x03\x04", "it is a zip archive" },
    { 257, 5, "ustar", "it is a tar archive" },
    { 0, 4, "\x0a\x23\xd7\xce", "it is an MXNet RecordIO file" },
    { 0, 8, "\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", "it is a Riegeli or ArrayRecord file" },
    { 0, 8, "\x89HDF\r\n\x1a\n", "it is an HDF5 file" },
    { 0, 8, "version ", "it looks like a Git LFS pointer: fetch the file itself with git lfs pull" },
    { 0, 6, "\x93NUMPY", "it is a NumPy array" },
    { 0, 4, "PAR1", "it is a Parquet file: write its images to TFRecords or to files first" },
    { 0, 6, "ARROW1", "it is an Arrow file: write its images to TFRecords or to files first" },
    { 0, 8, "\2\0\2\0\0\0\x80\0", "it is an FFCV file: write its images to TFRecords or to files first" },
    { 0, 3, "\x00\x00\x08", "it looks like an MNIST IDX file: pipetrain-convert makes shards of it" },
};

static const struct signature images[] = {
    { 0, 3, "\xff\xd8\xff", "JPEG" },
    { 0, 8, "\x89PNG\r\n\x1a\n", "PNG" },
    { 0, 4, "GIF8", "GIF" },
    { 8, 4, "WEBP", "WebP" },
    { 0, 4, "II*\0", "TIFF" },
    { 0, 4, "MM\0*", "TIFF" },
    { 14, 4, "\x28\0\0\0", "BMP" },
    { 14, 4, "\x7c\0\0\0", "BMP" },
    { 0, 3, "P4\n", "PNM" },
    { 0, 3, "P5\n", "PNM" },
    { 0, 3, "P6\n", "PNM" },
};

/* Signatures in base64 and in its URL-safe variant. */
static const struct signature text_images[] = {
    { 0, 4, "/9j/", "JPEG" },
    { 0, 4, "_9j_", "JPEG" },
    { 0, 5, "iVBOR", "PNG" },
    { 0, 5, "R0lGO", "GIF" },
    { 0, 5, "UklGR", "WebP" },
    { 0, 11, "data:image/", "data-URI" },
};

static const char *signature_find(const struct signature *rows, size_t count, const uint8_t *head, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        const struct signature *row = &rows[i];
        if (bytes >= row->offset + row->bytes && memcmp(head + row->offset, row->magic, row->bytes) == 0)
            return row->text;
    }
    return NULL;
}

const char *shard_kind_text_image(const uint8_t *head, size_t bytes)
{
    return signature_find(text_images, sizeof(text_images) / sizeof(*text_images), head, bytes);
}

static bool is_zlib(const uint8_t *head, size_t bytes)
{
    return bytes >= 2 && head[0] == 0x78 && (head[0] * 256u + head[1]) % 31 == 0;
}

bool shard_kind_is_zeros(const uint8_t *head, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && head[i] == 0)
        i++;
    return bytes >= TEXT_BYTES_MIN && i == bytes;
}

/* Text has almost no control bytes, other files have many; bytes above 127 may be UTF-8. */
bool shard_kind_is_text(const uint8_t *head, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && ((head[i] >= 0x80 && i >= TEXT_BYTES_MIN) || isprint(head[i]) || isspace(head[i])))
        i++;
    return bytes >= TEXT_BYTES_MIN && i == bytes;
}

const char *shard_kind_image(const uint8_t *head, size_t bytes)
{
    return signature_find(images, sizeof(images) / sizeof(*images), head, bytes);
}

const char *shard_kind_text(const uint8_t *head, size_t bytes)
{
    const char *container = signature_find(containers, sizeof(containers) / sizeof(*containers), head, bytes);
    if (container != NULL)
        return container;
    if (shard_kind_image(head, bytes) != NULL)
        return "it is an image file, not a shard of records";
    if (is_zlib(head, bytes))
        return "it begins like zlib data, but holds no records";
    if (shard_kind_is_zeros(head, bytes))
        return "it begins with zeros, as a file does whose writing was cut off by a crash";
    if (shard_kind_is_text(head, bytes))
        return head[0] == '<' || html_begins(head, bytes)
                   ? "it is an HTML or XML text, perhaps the error page of a download" : "it is a text file";
    return NULL;
}
