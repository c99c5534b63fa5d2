/* Fuzz target of JSON Lines as a table: every line of the text is a line of the table with as many fields as there are
 * columns, or it is empty; what is refused names a line of the text. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/csv.h"
#include "formats/jsonl.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("{\"file_name\": \"a.png\", \"label\": 1}\n\n{\"label\": \"b,\\\"\\n\", \"x\": [1.5, {\"y\": null}]}\r\n"),
    SEED("\xef\xbb\xbf{\"a\": true}\n{\"sep=;\": \"\t\"}"),
    SEED("{\"a\": 1}\n{\"a\": }\n"),
    { NULL, 0 },
};

static void check_table(const char *text, size_t bytes)
{
    struct csv csv;
    struct csv_field field;
    const char *problem;
    size_t columns = 0, fields = 0;
    uint64_t rows = 0;
    int rc;

    csv_begin(&csv, text, bytes);
    require(csv.separator == ',');
    while ((rc = csv_next(&csv, &field, &problem)) == 0) {
        fields++;
        if (!field.ends_row)
            continue;
        columns = rows++ == 0 ? fields : columns;
        require(fields == columns);
        fields = 0;
    }
    require(rc == -ENODATA && rows > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *csv, problem[128] = "";
    size_t csv_bytes, lines = 1;
    uint64_t line;
    const int rc = jsonl_to_csv((const char *)data, bytes, &csv, &csv_bytes, &line, problem, sizeof(problem));

    for (size_t i = 0; i < bytes; i++)
        lines += data[i] == '\n';
    require(rc == 0 || (rc == -EBADMSG && problem[0] != '\0' && line <= lines));
    require(rc < 0 || bytes == 0 || memchr(csv, '\n', csv_bytes) != NULL);
    (void)jsonl_begins((const char *)data, bytes, true);
    if (rc < 0)
        return 0;
    check_table(csv, csv_bytes);
    free(csv);
    return 0;
}
