/* DALI's index, written and compared. Called by main; pure functions. */
#include "tools/shards/dali_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "stage/text/text_stream.h"

/* What is still to be read. */
struct lines {
    const char *at, *end;
    uint64_t number;            /* of the line, from 1 */
};

/* Where a record lies, or a line says it does. */
struct stretch { uint64_t offset, bytes; };

char *dali_index_text(const struct shard_index *index, size_t *bytes_out)
{
    char *text = NULL;
    FILE *const out = open_memstream(&text, bytes_out);
    if (out == NULL)
        return NULL;
    for (uint64_t i = 0; i < index->record_count; i++)
        fprintf(out, "%" PRIu64 " %" PRIu64 "\n", index->records[i].offset,
                (uint64_t)index->records[i].payload_bytes + TFRECORD_FRAME_BYTES);
    text_stream_end(out, &text);
    return text;
}

/* Digits, and not more than a file can be long. */
static bool take_number(struct lines *lines, uint64_t *value_out)
{
    const char *const first = lines->at;
    uint64_t value = 0;
    for (; lines->at < lines->end && *lines->at >= '0' && *lines->at <= '9'; lines->at++) {
        if (value > INT64_MAX / 10 - 1)
            return false;
        value = 10 * value + (uint64_t)(*lines->at - '0');
    }
    *value_out = value;
    return lines->at > first;
}

static bool take_byte(struct lines *lines, char byte)
{
    if (lines->at == lines->end || *lines->at != byte)
        return false;
    lines->at++;
    return true;
}

static bool take_line(struct lines *lines, struct stretch *stretch_out)
{
    return take_number(lines, &stretch_out->offset) && take_byte(lines, ' ') &&
           take_number(lines, &stretch_out->bytes) && take_byte(lines, '\n');
}

static struct stretch stretch_of(const struct shard_index *index, uint64_t record)
{
    const struct shard_record *const found = &index->records[record];
    return (struct stretch){ found->offset, (uint64_t)found->payload_bytes + TFRECORD_FRAME_BYTES };
}

/* Where the line in front ends; UINT64_MAX, which no line says, where that cannot be counted. */
static uint64_t end_of(const struct stretch *stretch)
{
    uint64_t end;
    return __builtin_add_overflow(stretch->offset, stretch->bytes, &end) ? UINT64_MAX : end;
}

/* What a line has wrong that can be told without the shard, or that it is of another file. */
static void describe_line(uint64_t number, const struct stretch *line, const struct stretch *before,
                          const struct stretch *record, char *problem, size_t problem_size)
{
    if (line->offset != end_of(before))
        snprintf(problem, problem_size,
                 "line %" PRIu64 ": begins at byte %" PRIu64 ", where byte %" PRIu64
                 " is next: lines are missing or in another order",
                 number, line->offset, end_of(before));
    else if (line->bytes < TFRECORD_FRAME_BYTES)
        snprintf(problem, problem_size, "line %" PRIu64 ": %" PRIu64 " bytes are less than a record takes", number,
                 line->bytes);
    else
        snprintf(problem, problem_size,
                 "line %" PRIu64 ": says %" PRIu64 " bytes at byte %" PRIu64 ", the shard has %" PRIu64
                 " at byte %" PRIu64 ": it is of another file, or of this one as it was",
                 number, line->bytes, line->offset, record->bytes, record->offset);
}

static bool line_agrees(struct lines *lines, struct stretch *before, const struct stretch *record, char *problem,
                        size_t problem_size)
{
    struct stretch line;
    lines->number++;
    if (!take_line(lines, &line)) {
        snprintf(problem, problem_size, "line %" PRIu64 ": is not \"OFFSET SIZE\"", lines->number);
        return false;
    }
    if (line.offset != record->offset || line.bytes != record->bytes) {
        describe_line(lines->number, &line, before, record, problem, problem_size);
        return false;
    }
    *before = line;
    return true;
}

bool dali_index_agrees(const char *text, size_t bytes, const struct shard_index *index, char *problem_out,
                       size_t problem_size)
{
    struct lines lines = { text, text + bytes, 0 };
    struct stretch before = { 0, 0 };
    for (uint64_t i = 0; i < index->record_count && lines.at < lines.end; i++) {
        const struct stretch record = stretch_of(index, i);
        if (!line_agrees(&lines, &before, &record, problem_out, problem_size))
            return false;
    }
    if (lines.at == lines.end && lines.number == index->record_count)
        return true;
    snprintf(problem_out, problem_size, "has %s lines than the shard has records (%" PRIu64 "): %s",
             lines.at < lines.end ? "more" : "fewer", index->record_count,
             lines.at < lines.end ? "the shard was cut, or it is of another file"
                                  : "it was cut, or the shard has grown");
    return false;
}
