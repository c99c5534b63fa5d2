/* Features as lines. Called by main. */
#include "tools/shards/feature_line.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "formats/image_header.h"
#include "stage/log.h"
#include "stage/text/utf8.h"

#define VALUES_SHOWN 8u         /* numbers, or bytes of what is neither text nor image */
#define TEXT_SHOWN 72u          /* bytes of a text */
#define TEXT_MAX 4096u          /* longer values are no texts */

static const char *const kind_texts[] = {
    [FEATURE_MISSING] = "nothing", [FEATURE_BYTES] = "bytes", [FEATURE_FLOATS] = "float", [FEATURE_INT64S] = "int64",
};

/* A line under way. */
struct values {
    FILE *out;
    uint64_t shown;
};

static void add_int64(void *arg, int64_t value)
{
    struct values *const values = arg;
    if (values->shown++ < VALUES_SHOWN)
        fprintf(values->out, " %" PRId64, value);
}

static void add_floats(void *arg, const uint8_t *run, size_t count)
{
    struct values *const values = arg;
    for (size_t i = 0; i < count && values->shown < VALUES_SHOWN; i++, values->shown++) {
        const uint8_t *const at = run + 4 * i;
        const uint32_t bits =
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        float value;
        memcpy(&value, &bits, sizeof(value));
        fprintf(values->out, " %.7g", (double)value);
    }
}

/* Characters that are shown as they are, nothing else. */
static bool is_text(const uint8_t *value, size_t bytes)
{
    size_t at = 0;
    while (at < bytes && bytes <= TEXT_MAX) {
        const size_t character = utf8_character_bytes((const char *)value + at, bytes - at);
        if (character == 0 || value[at] < 0x20 || value[at] == 0x7f)
            return false;
        at += character;
    }
    return bytes <= TEXT_MAX;
}

static bool print_image(FILE *out, const uint8_t *value, size_t bytes)
{
    struct image_header header;
    const char *problem;
    if (image_header_read(value, bytes, &header, &problem) != 0)
        return false;
    fprintf(out, " %s %" PRIu32 "x%" PRIu32 "x%" PRIu32 ", %zu bytes",
            header.format == IMAGE_FORMAT_JPEG ? "JPEG" : "PNG", header.width, header.height, header.channels, bytes);
    return true;
}

static void print_text(FILE *out, const uint8_t *value, size_t bytes)
{
    char shown[4 * TEXT_SHOWN + 1];
    const size_t kept = utf8_valid_bytes((const char *)value, bytes < TEXT_SHOWN ? bytes : TEXT_SHOWN);
    log_escape((const char *)value, kept, shown, sizeof(shown));
    fprintf(out, " \"%s\"%s", shown, kept < bytes ? "..." : "");
}

static void print_bytes(FILE *out, const uint8_t *value, size_t bytes)
{
    fprintf(out, " %zu bytes:", bytes);
    for (size_t i = 0; i < bytes && i < VALUES_SHOWN; i++)
        fprintf(out, " %02x", value[i]);
    fprintf(out, "%s", bytes > VALUES_SHOWN ? " ..." : "");
}

static void add_bytes(void *arg, const uint8_t *value, size_t bytes)
{
    struct values *const values = arg;
    if (values->shown++ >= VALUES_SHOWN || print_image(values->out, value, bytes))
        return;
    if (is_text(value, bytes))
        print_text(values->out, value, bytes);
    else
        print_bytes(values->out, value, bytes);
}

void feature_line_print(FILE *out, const char *name, size_t name_bytes, const struct feature *feature)
{
    char shown[256];
    struct values values = { .out = out };
    const struct value_visitor visitor = { add_bytes, add_floats, add_int64, &values };
    log_escape(name, name_bytes, shown, sizeof(shown));
    fprintf(out, "    %-24s %-7s %8" PRIu64, shown, kind_texts[feature->kind], feature->value_count);
    if (feature->kind != FEATURE_MISSING && feature->value_count > 0) {
        fprintf(out, " ");
        feature_visit(feature, &visitor);
    }
    fprintf(out, "%s\n", feature->value_count > VALUES_SHOWN ? " ..." : "");
}
