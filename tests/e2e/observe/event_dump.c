/* For the end-to-end scripts: what stands in files of events, a line for each event or value.
 *
 *     event_dump FILE...
 *
 *     version brain.Event:2
 *     start STEP
 *     scalar STEP TAG VALUE
 *     histogram STEP TAG LEAST MOST COUNT SUM SQUARES BUCKETS COUNTED
 *     text STEP TAG BYTES
 *     hparam NAME VALUE
 *     session STEP TAG
 *
 * COUNTED is what stands in the buckets together. Exit code 1 where a record is not whole, a histogram's limits do not
 * rise or reach its most, or holds what is not one of these. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/protobuf.h"
#include "formats/tfrecord.h"

static const char *file_name;

static void give_up(const char *what)
{
    fprintf(stderr, "event_dump: %s: %s\n", file_name, what);
    exit(1);
}

/* The next field of the message; false at its end. */
static bool next(struct range *range, struct field *field)
{
    *field = (struct field){ .number = 0 };
    if (range_bytes(range) == 0)
        return false;
    if (!take_field(range, field))
        give_up("no message");
    return true;
}

/* The last field of this number in a message; number 0: there is none. */
static struct field find(struct range range, uint32_t number)
{
    struct field field, found = { .number = 0 };
    while (next(&range, &field))
        if (field.number == number)
            found = field;
    return found;
}

/* A field that leads there from message to message. */
static struct field follow(struct range range, const uint32_t *numbers, size_t count)
{
    struct field field = { .body = range };
    for (size_t i = 0; i < count; i++)
        field = find(field.body, numbers[i]);
    return field;
}
#define FOLLOW(range, ...) \
    follow(range, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

static double double_of(const struct field *field)
{
    double value = 0;
    if (field->number > 0 && range_bytes(&field->body) >= sizeof(value))
        memcpy(&value, field->body.at, sizeof(value));
    return value;
}

static int length(const struct range *range)
{
    return (int)range_bytes(range);
}

static void dump_parameters(struct range range)
{
    struct field field;
    while (next(&range, &field)) {
        if (field.number != 1)
            continue;
        const struct field key = find(field.body, 1), number = FOLLOW(field.body, 2, 2);
        const struct field words = FOLLOW(field.body, 2, 3), flag = FOLLOW(field.body, 2, 4);
        printf("hparam %.*s ", length(&key.body), (const char *)key.body.at);
        if (number.number > 0)
            printf("%.17g\n", double_of(&number));
        else if (flag.number > 0)
            printf("%s\n", flag.varint != 0 ? "true" : "false");
        else
            printf("%.*s\n", length(&words.body), (const char *)words.body.at);
    }
}

/* Of packed doubles. */
static double number_at(const struct field *packed, size_t i)
{
    double number;
    memcpy(&number, packed->body.at + i * sizeof(number), sizeof(number));
    return number;
}

static void dump_histogram(struct range body, const char *where)
{
    static const uint32_t fields[] = { 1, 2, 3, 4, 5 };
    const struct field limits = find(body, 6), counts = find(body, 7), most = find(body, 2);
    const size_t buckets = range_bytes(&limits.body) / sizeof(double);
    double counted = 0;
    if (buckets == 0 || range_bytes(&counts.body) != range_bytes(&limits.body))
        give_up("limits and counts that are not as many");
    for (size_t i = 0; i < buckets; i++) {
        if (i > 0 && !(number_at(&limits, i) > number_at(&limits, i - 1)))
            give_up("limits that do not rise");
        counted += number_at(&counts, i);
    }
    if (number_at(&limits, buckets - 1) != double_of(&most))
        give_up("the last limit is not the most");
    printf("histogram %s", where);
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        const struct field field = find(body, fields[i]);
        printf(" %.17g", double_of(&field));
    }
    printf(" %zu %.17g\n", buckets, counted);
}

static void dump_value(struct range value, uint64_t step)
{
    const struct field tag = find(value, 1), simple = find(value, 2);
    const struct field histogram = find(value, 5), text = FOLLOW(value, 8, 8), begun = FOLLOW(value, 9, 1, 2, 3);
    char where[256];
    snprintf(where, sizeof(where), "%" PRIu64 " %.*s", step, length(&tag.body), (const char *)tag.body.at);
    if (simple.number > 0) {
        float number;
        memcpy(&number, simple.body.at, sizeof(number));
        printf("scalar %s %.9g\n", where, (double)number);
    } else if (histogram.number > 0) {
        dump_histogram(histogram.body, where);
    } else if (text.number > 0) {
        printf("text %s %zu\n", where, range_bytes(&text.body));
    } else {
        printf("session %s\n", where);
        if (begun.number > 0)
            dump_parameters(begun.body);
    }
}

static void dump_event(struct range event)
{
    const struct field step = find(event, 2), version = find(event, 3), log = find(event, 7);
    struct range summary = find(event, 5).body;
    struct field field;
    if (double_of(&(struct field){ .number = 1, .body = find(event, 1).body }) < 1e9)
        give_up("an event without a time");
    if (version.number > 0)
        printf("version %.*s\n", length(&version.body), (const char *)version.body.at);
    if (log.number > 0 && find(log.body, 1).varint == 1)
        printf("start %" PRIu64 "\n", step.varint);
    while (next(&summary, &field))
        dump_value(field.body, step.varint);
}

static void dump(const char *name)
{
    static uint8_t content[1 << 24];
    file_name = name;
    FILE *const file = fopen(name, "rb");
    if (file == NULL)
        give_up("cannot be read");
    const size_t bytes = fread(content, 1, sizeof(content), file);
    fclose(file);
    for (size_t at = 0; at < bytes;) {
        uint64_t payload_bytes = 0;
        struct tfrecord_problem problem;
        const enum tfrecord_check check = tfrecord_verify(content + at, bytes - at, &payload_bytes, &problem);
        if (check != TFRECORD_OK)
            give_up(tfrecord_check_text(check));
        const uint8_t *const payload = content + at + TFRECORD_HEADER_BYTES;
        dump_event((struct range){ payload, payload + payload_bytes });
        at += payload_bytes + TFRECORD_FRAME_BYTES;
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        dump(argv[i]);
    return 0;
}
