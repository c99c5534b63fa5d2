/* Fuzz target of walking tables: fields lie inside the text and one behind the other, and a table written again
 * from its values, all in quotes, reads the same. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/csv.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("path,label\na.png,cat\r\nb.png,\"d\"\"o,g\"\n"),
    SEED("\xef\xbb\xbf" "1;0;255\n\n2;\"3\n4\";\n"),
    SEED("\"a\"\tb\n"),
    { NULL, 0 },
};

static char *put_quoted(char *out, const char *value, size_t bytes, char behind)
{
    *out++ = '"';
    for (size_t i = 0; i < bytes; i++) {
        if (value[i] == '"')
            *out++ = '"';
        *out++ = value[i];
    }
    *out++ = '"';
    *out++ = behind;
    return out;
}

/* Write the table again to `out`; its length, or 0 when the table is wrong. */
static size_t write_again(const char *text, size_t bytes, char separator, char *out, size_t *field_count_out)
{
    struct csv csv;
    struct csv_field field;
    const char *problem = NULL, *end = text;
    char *at = out, *value = malloc(bytes + 1);
    int rc;

    require(value != NULL);
    *field_count_out = 0;
    csv_begin(&csv, text, bytes);
    while ((rc = csv_next(&csv, &field, &problem)) == 0) {
        require(field.text >= end && field.text + field.bytes <= text + bytes);
        end = field.text + field.bytes;
        const size_t value_bytes = csv_value(&field, value);
        require(field.has_doubled_quotes ? value_bytes < field.bytes : value_bytes == field.bytes);
        at = put_quoted(at, value, value_bytes, field.ends_row ? '\n' : separator);
        (*field_count_out)++;
    }
    require(rc == -ENODATA || (rc == -EBADMSG && problem != NULL));
    free(value);
    return rc == -ENODATA ? (size_t)(at - out) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct csv csv;
    size_t fields, fields_again;
    char *once = malloc(4 * bytes + 8), *twice = malloc(4 * (4 * bytes + 8) + 8);

    require(once != NULL && twice != NULL);
    csv_begin(&csv, (const char *)data, bytes);
    const size_t once_bytes = write_again((const char *)data, bytes, csv.separator, once, &fields);
    if (once_bytes > 0) {
        csv_begin(&csv, once, once_bytes);
        const size_t twice_bytes = write_again(once, once_bytes, csv.separator, twice, &fields_again);
        /* a first line of one field tells no separator */
        require(fields != fields_again || (twice_bytes == once_bytes && memcmp(once, twice, once_bytes) == 0));
    }
    free(once);
    free(twice);
    return 0;
}
