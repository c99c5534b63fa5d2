/* pipetrain-shards head: print the features of the first records of a shard. Called by the main thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "formats/example.h"
#include "formats/image_header.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/utf8.h"
#include "tools/lib/text/columns.h"
#include "tools/shards/shard_walk.h"
#include "tools/shards/shards_command.h"

/* ---- printing a feature as a line ---- */

#define VALUES_SHOWN 8u         /* numbers of a list, or bytes of a value that is neither text nor image */
#define NAME_COLUMNS 24u        /* for the name of a feature; longer names take more */
#define TEXT_SHOWN 72u          /* bytes of a text */
#define TEXT_MAX 4096u          /* longer values are not printed as text */

static const char *const kind_texts[] = {
    [FEATURE_MISSING] = "nothing", [FEATURE_BYTES] = "bytes", [FEATURE_FLOATS] = "float", [FEATURE_INT64S] = "int64",
};

/* The line of a feature: where it is printed, and how many values have been printed. */
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

/* Whether the value is UTF-8 without control characters. */
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
    fputs("    ", out);
    columns_print(out, shown, NAME_COLUMNS, sizeof(shown));
    fprintf(out, " %-7s %8" PRIu64, kind_texts[feature->kind], feature->value_count);
    if (feature->kind != FEATURE_MISSING && feature->value_count > 0) {
        fprintf(out, " ");
        feature_visit(feature, &visitor);
    }
    fprintf(out, "%s\n", feature->value_count > VALUES_SHOWN ? " ..." : "");
}

/* ---- records ---- */

struct head {
    const char *path;
    struct shard_walk walk;
    struct chunk chunk;
    uint64_t left;              /* number of records that are still to be printed */
    bool is_damaged;
};

static void report_damage(struct head *head, uint64_t record, uint64_t offset, const struct record_problem *problem)
{
    char text[2048];
    record_place_describe(head->path, record, offset, problem, text, sizeof(text));
    log_message(LOG_ERROR, "%s", text);
    head->is_damaged = true;
}

static int print_feature(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    feature_line_print(arg, name, name_bytes, feature);
    return 0;
}

static void show_record(struct head *head, const struct chunk_record *record)
{
    struct record_problem problem = { 0 };
    size_t bad_offset;
    if (!chunk_record_verify(record, head->walk.source, &problem)) {
        report_damage(head, record->record, record->offset, &problem);
        return;
    }
    printf("record %" PRIu64 " at byte %" PRIu64 ": %zu bytes of payload\n", record->record, record->offset,
           record->payload_bytes);
    if (example_visit(record->payload, record->payload_bytes, print_feature, stdout, &bad_offset) == 0)
        return;
    snprintf(problem.text, sizeof(problem.text), "is not a tf.train.Example (byte %zu of its payload)", bad_offset);
    report_damage(head, record->record, record->offset, &problem);
}

static void show_chunk(struct head *head)
{
    struct chunk_record record = { 0 };
    while (head->left > 0 && chunk_next(&head->chunk, &record)) {
        show_record(head, &record);
        head->left--;
    }
}

/* Print the records. 0 after the last requested record, -ENODATA at the end of the shard, -ENOMEM or -ECANCELED. */
static int show_records(struct head *head)
{
    int rc = 0;
    while (head->left > 0 && (rc == 0 || rc == -EBADMSG)) {
        rc = shard_walk_next(&head->walk, &head->chunk);
        if (rc == 0)
            show_chunk(head);
        else if (rc == -EBADMSG)
            report_damage(head, head->chunk.record, head->chunk.offset, &head->chunk.problem);
    }
    return rc;
}

/* Print the first records of a shard. Returns an exit code. */
static int show(const struct shards_request *request, const char *path)
{
    struct head head = { .path = path, .left = request->records };
    head.walk.is_unwanted = request->is_unwanted;
    int rc = shards_source_open(&head.walk.source, head.path);
    if (rc < 0)
        return (int)exit_code_of(rc, EXIT_CODE_DATA);
    rc = show_records(&head);
    if (rc == -ENOMEM)
        log_message(LOG_ERROR, "%s: %s", head.path, strerror(ENOMEM));
    shard_walk_release(&head.walk);
    shard_source_close(head.walk.source);
    chunk_release(&head.chunk);
    return rc == -ENOMEM ? EXIT_CODE_MEMORY : head.is_damaged ? EXIT_CODE_DATA : EXIT_CODE_OK;
}

static int run(const struct shards_request *request, struct shard_list *list)
{
    if (list->count > 1)
        printf("%s, the first of %" PRIu32 " shards:\n", list->paths[0], list->count);
    return show(request, list->paths[0]);
}

const struct shards_command command_head = {
    .name = "head",
    .words = "PATTERN",
    .words_least = 1,
    .words_most = 1,
    .options = "n",
    .summary = "print the features of the first records of a shard",
    .help = "Prints one line per feature: its name, kind, number of values, and the first\n"
            "values, or the format and size of an encoded image. Control characters in\n"
            "names and texts are escaped. If PATTERN means several shards, the first one is\n"
            "used.\n\n"
            "  " SHARDS_PROGRAM " head train-00000-of-01024\n"
            "  " SHARDS_PROGRAM " head -n 1 mine.tfrecord\n",
    .takes_patterns = true,
    .run = run,
};
