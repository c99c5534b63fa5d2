/* Fuzz target of the tf.train.Example walk beside protobuf-c: any bytes as a payload, and any bytes as the dice for
 * a payload that is legal. Both read the same entries with the same values, or both refuse. Where the library
 * differs from protobuf's own is said below. */
#include <stdio.h>

#ifndef HAVE_PROTOBUF_C

int main(void)
{
    puts("built without protobuf-c");
    return 77;
}

#else

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "example_reference.pb-c.h"
#include "formats/example.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("\012\047\012\025\012\011\151\155\141\147\145\137\162\141\167\022\010\012\006\012\004\000\001\002"
         "\003\012\016\012\005\154\141\142\145\154\022\005\032\003\012\001\007"),
    SEED("\012\025\012\023\012\005\154\141\142\145\154\022\012\032\010\010\011\012\002\005\006\010\007"),
    SEED("\012\023\012\021\012\001\146\022\014\022\012\012\010\000\000\200\077\000\000\040\300\012\023\012"
         "\021\012\001\146\022\014\022\012\015\000\000\200\077\015\000\000\040\300"),
    SEED("\030\005\012\031\012\027\041\001\002\003\004\005\006\007\010\022\005\032\003\012\001\007\012\005"
         "\154\141\142\145\154"),
    SEED("\012\032\012\030\012\005\154\141\142\145\154\022\017\032\003\012"
         "\001\005\012\003\012\001\141\032\003\012\001\007"),
    { NULL, 0 },
};

/* Our walk and theirs, entry by entry. */
struct comparison {
    const Reference__Features *theirs;
    size_t entry;
};

/* The values of one list: ours come one by one, and are the last ones of theirs. */
struct values {
    const Reference__Feature *theirs;
    size_t next;
};

static void compare_bytes(void *arg, const uint8_t *value, size_t bytes)
{
    struct values *const values = arg;
    const ProtobufCBinaryData *const other = &values->theirs->bytes_list->value[values->next++];
    if (other->len != bytes || (bytes > 0 && memcmp(other->data, value, bytes) != 0))
        abort();
}

static void compare_floats(void *arg, const uint8_t *run, size_t count)
{
    struct values *const values = arg;
    for (size_t i = 0; i < count; i++)
        if (memcmp(&values->theirs->float_list->value[values->next++], run + 4 * i, 4) != 0)
            abort();
}

static void compare_int64(void *arg, int64_t value)
{
    struct values *const values = arg;
    if (values->theirs->int64_list->value[values->next++] != value)
        abort();
}

/* How many values of the kind they have; SIZE_MAX where they have no such list. */
static size_t count_values(const Reference__Feature *theirs, enum feature_kind kind)
{
    if (theirs == NULL)
        return SIZE_MAX;
    if (kind == FEATURE_BYTES)
        return theirs->bytes_list != NULL ? theirs->bytes_list->n_value : SIZE_MAX;
    if (kind == FEATURE_FLOATS)
        return theirs->float_list != NULL ? theirs->float_list->n_value : SIZE_MAX;
    return theirs->int64_list != NULL ? theirs->int64_list->n_value : SIZE_MAX;
}

static int count_kinds(const Reference__Feature *theirs)
{
    int kinds = 0;
    for (int kind = FEATURE_BYTES; kind <= FEATURE_INT64S; kind++)
        kinds += count_values(theirs, (enum feature_kind)kind) != SIZE_MAX;
    return kinds;
}

/* Of several kinds the last one counts, and of that the lists behind all others: in a feature that is no oneof all
 * values are kept. */
static void compare_feature(const struct feature *ours, const Reference__Feature *theirs)
{
    const int kinds = count_kinds(theirs);
    if ((ours->kind == FEATURE_MISSING) != (kinds == 0))
        abort();
    if (kinds == 0)
        return;
    const size_t count = count_values(theirs, ours->kind);
    if (count == SIZE_MAX || ours->value_count > count || (kinds == 1 && ours->value_count != count))
        abort();
    struct values values = { theirs, count - (size_t)ours->value_count };
    const struct value_visitor visitor = { compare_bytes, compare_floats, compare_int64, &values };
    feature_visit(ours, &visitor);
    if (values.next != count)
        abort();
}

static int compare_entry(void *arg, const char *name, size_t name_bytes, const struct feature *ours)
{
    struct comparison *const comparison = arg;
    if (comparison->theirs == NULL || comparison->entry >= comparison->theirs->n_feature)
        abort();
    const Reference__Entry *const theirs = comparison->theirs->feature[comparison->entry++];
    if (theirs->key.len != name_bytes || (name_bytes > 0 && memcmp(theirs->key.data, name, name_bytes) != 0))
        abort();
    compare_feature(ours, theirs->value);
    return 0;
}

/* The library reads tags and lengths of up to 5 bytes, where protobuf's own reads 10. */
static bool has_long_varint(const uint8_t *data, size_t bytes)
{
    size_t run = 0;
    for (size_t i = 0; i < bytes && run < 5; i++)
        run = data[i] >= 0x80 ? run + 1 : 0;
    return run == 5;
}

/* It takes fields of number 0, and of numbers over 2^29 - 1, for unknown ones, where protobuf's own refuses them. */
static bool has_bad_number(const uint8_t *data, size_t bytes, size_t at)
{
    uint64_t tag = 0;
    for (size_t i = 0; i < 10 && at + i < bytes; i++) {
        tag |= (uint64_t)(data[at + i] & 0x7f) << (7 * i);
        if (data[at + i] < 0x80)
            break;
    }
    return tag >> 3 == 0 || tag >> 3 > 0x1fffffff;
}

static int ignore(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    (void)arg;
    (void)name;
    (void)name_bytes;
    (void)feature;
    return 0;
}

static void compare(const uint8_t *data, size_t bytes, bool is_legal)
{
    size_t bad = 0;
    Reference__Example *const theirs = reference__example__unpack(NULL, bytes, data);
    const bool is_read = example_visit(data, bytes, ignore, NULL, &bad) == 0;
    if (is_legal && (!is_read || theirs == NULL))
        abort();
    if (is_read && theirs == NULL && !has_long_varint(data, bytes))
        abort();
    if (!is_read && theirs != NULL && !has_bad_number(data, bytes, bad))
        abort();
    if (is_read && theirs != NULL) {
        struct comparison comparison = { theirs->features, 0 };
        (void)example_visit(data, bytes, compare_entry, &comparison, &bad);
        if (theirs->features != NULL && comparison.entry != theirs->features->n_feature)
            abort();
    }
    if (theirs != NULL)
        reference__example__free_unpacked(theirs, NULL);
}

/* A message being written from its end to its beginning, so that every length is known when it is put. */
struct writer {
    uint8_t room[2048], *at;
    const uint8_t *dice;
    size_t left;
};

static unsigned roll(struct writer *writer, unsigned sides)
{
    if (writer->left == 0)
        return 0;
    writer->left--;
    return *writer->dice++ % sides;
}

static void put_byte(struct writer *writer, unsigned byte)
{
    *--writer->at = (uint8_t)byte;
}

static void put_varint(struct writer *writer, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;
    do
        bytes[count++] = (uint8_t)((value & 0x7f) | (value >= 0x80 ? 0x80 : 0));
    while ((value >>= 7) != 0);
    while (count > 0)
        put_byte(writer, bytes[--count]);
}

static void wrap(struct writer *writer, const uint8_t *end, unsigned number)
{
    put_varint(writer, (uint64_t)(end - writer->at));
    put_byte(writer, number << 3 | 2);
}

/* A field that no message has, of any type. */
static void put_unknown(struct writer *writer)
{
    static const uint8_t fields[][2] = { { 0, 1 }, { 1, 8 }, { 5, 4 } };        /* type, bytes */
    const uint8_t *const field = fields[roll(writer, 3)];
    for (int i = 0; i < field[1]; i++)
        put_byte(writer, roll(writer, 128));
    put_byte(writer, (4 + roll(writer, 11)) << 3 | field[0]);
}

static void put_number(struct writer *writer, unsigned kind)
{
    if (kind == FEATURE_INT64S) {
        const uint64_t values[] = { roll(writer, 256), 300, UINT64_MAX, (uint64_t)1 << 63, 0 };
        put_varint(writer, values[roll(writer, 5)]);
        return;
    }
    for (int i = 0; i < 4; i++)
        put_byte(writer, roll(writer, 256));
}

/* Values as one bytes value, one number, or a run of numbers. */
static void put_values(struct writer *writer, unsigned kind)
{
    const uint8_t *const end = writer->at;
    const unsigned count = roll(writer, 4);
    const bool is_packed = kind == FEATURE_BYTES || roll(writer, 2) == 0;
    if (kind == FEATURE_BYTES)
        for (unsigned i = 0; i < count; i++)
            put_byte(writer, roll(writer, 256));
    else
        for (unsigned i = 0; i < (is_packed ? count : 1); i++)
            put_number(writer, kind);
    if (is_packed)
        wrap(writer, end, 1);
    else
        put_byte(writer, 1u << 3 | (kind == FEATURE_INT64S ? 0 : 5));
}

static void put_feature(struct writer *writer)
{
    for (unsigned lists = roll(writer, 3); lists > 0; lists--) {
        const unsigned kind = 1 + roll(writer, 3);
        const uint8_t *const end = writer->at;
        for (unsigned parts = roll(writer, 4); parts > 0; parts--)
            put_values(writer, kind);
        if (roll(writer, 8) == 7)
            put_unknown(writer);
        wrap(writer, end, kind);
    }
}

static void put_key(struct writer *writer)
{
    const uint8_t *const end = writer->at;
    for (unsigned bytes = roll(writer, 3); bytes > 0; bytes--)
        put_byte(writer, 'a' + roll(writer, 2));
    wrap(writer, end, 1);
}

/* Name and value in any order, each at times missing or there twice. */
static void put_entry(struct writer *writer)
{
    const uint8_t *const entry_end = writer->at;
    for (unsigned parts = roll(writer, 4); parts > 0; parts--) {
        const uint8_t *const end = writer->at;
        const unsigned part = roll(writer, 9);
        if (part == 8) {
            put_unknown(writer);
        } else if (part % 2 == 0) {
            put_key(writer);
        } else {
            put_feature(writer);
            wrap(writer, end, 2);
        }
    }
    wrap(writer, entry_end, 1);
}

static void compare_written(const uint8_t *dice, size_t bytes)
{
    static struct writer writer;
    writer.at = writer.room + sizeof(writer.room);
    writer.dice = dice;
    writer.left = bytes;
    for (unsigned parts = roll(&writer, 3); parts > 0; parts--) {
        const uint8_t *const end = writer.at;
        for (unsigned entries = roll(&writer, 4); entries > 0; entries--)
            put_entry(&writer);
        if (roll(&writer, 8) == 7)
            put_unknown(&writer);
        wrap(&writer, end, 1);
    }
    compare(writer.at, (size_t)(writer.room + sizeof(writer.room) - writer.at), true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    compare(data, bytes, false);
    compare_written(data, bytes);
    return 0;
}

#endif
