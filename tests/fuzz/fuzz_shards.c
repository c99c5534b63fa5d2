/* Fuzz target of what pipetrain-shards does with bytes that somebody else wrote: any bytes as the payload of a record,
 * and as an index. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/example.h"
#include "tests/fuzz/fuzz.h"
#include "tools/shards/dali_index.h"
#include "tools/shards/found_sample.h"
#include "tools/shards/shards_command.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    /* {image_raw: 00 01 02 03, label: 7} */
    SEED("\012\047\012\025\012\011image_raw\022\010\012\006\012\004\000\001\002\003\012\016\012\005label\022\005\032"
         "\003\012\001\007"),
    SEED("0 34\n34 57\n"),
    SEED("0 34\n34 99999999999999999999\n"),
    { NULL, 0 },
};

static int print_feature(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    feature_line_print(arg, name, name_bytes, feature);
    return 0;
}

static void show(const uint8_t *data, size_t bytes)
{
    char *text = NULL;
    size_t text_bytes, bad_offset;
    FILE *const out = open_memstream(&text, &text_bytes);
    if (out == NULL)
        abort();
    (void)example_visit(data, bytes, print_feature, out, &bad_offset);
    fclose(out);
    for (size_t i = 0; i < text_bytes; i++)
        if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
            abort();            /* a terminal would act on it */
    free(text);
}

static void find(const uint8_t *data, size_t bytes)
{
    const struct sample_names names = { .image = NULL };
    struct found_sample sample;
    size_t bad_offset = 0;
    if (found_sample_read(&names, data, bytes, &sample, &bad_offset) < 0) {
        if (bad_offset > bytes)
            abort();
        return;
    }
    const bool is_raw = sample.image == FOUND_ROWS || sample.image == FOUND_PLANES;
    if (is_raw && (uint64_t)sample.height * sample.width * sample.channels != sample.byte_count)
        abort();
}

/* Only the text that is written for them agrees with these two records. */
static void compare(const uint8_t *data, size_t bytes)
{
    static const char right[] = "0 34\n34 57\n";
    uint32_t lengths[] = { 18, 41 };
    uint64_t offsets[] = { 0 };
    const struct shard_index index = { .bytes = 91, .record_count = 2, .lengths = lengths, .offsets = offsets };
    char problem[256] = "";
    const bool agrees = dali_index_agrees((const char *)data, bytes, &index, problem, sizeof(problem));
    const bool is_right = bytes == strlen(right) && memcmp(data, right, bytes) == 0;
    if ((is_right && !agrees) || (!agrees && problem[0] == '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    show(data, bytes);
    find(data, bytes);
    compare(data, bytes);
    return 0;
}
