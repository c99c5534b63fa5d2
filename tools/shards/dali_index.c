/* Writes and compares indexes of DALI. Called by the main thread; pure functions. */
#include "tools/shards/dali_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "stage/text/text_stream.h"

/* The part of the text that is not parsed yet. */
struct lines {
    const char *at, *end;
    uint64_t number;            /* number of the next line, from 1 */
};

/* The offset and size of a record: in the shard, or according to a line of the index. */
struct extent { uint64_t offset, bytes; };

char *dali_index_text(const struct shard_index *index, size_t *bytes_out)
{
    char *text = NULL;
    FILE *const out = open_memstream(&text, bytes_out);
    if (out == NULL)
        return NULL;
    for (uint64_t i = 0; i < index->record_count; i++) {
        const struct shard_record record = shard_index_find(index, i);
        fprintf(out, "%" PRIu64 " %" PRIu64 "\n", record.offset, (uint64_t)record.payload_bytes + TFRECORD_FRAME_BYTES);
    }
    text_stream_end(out, &text);
    return text;
}

/* Parse a decimal number of at most INT64_MAX. */
static bool parse_number(struct lines *lines, uint64_t *value_out)
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

static bool parse_byte(struct lines *lines, char byte)
{
    if (lines->at == lines->end || *lines->at != byte)
        return false;
    lines->at++;
    return true;
}

static bool parse_line(struct lines *lines, struct extent *extent_out)
{
    return parse_number(lines, &extent_out->offset) && parse_byte(lines, ' ') &&
           parse_number(lines, &extent_out->bytes) && parse_byte(lines, '\n');
}

static struct extent extent_of(const struct shard_index *index, uint64_t record)
{
    const struct shard_record found = shard_index_find(index, record);
    return (struct extent){ found.offset, (uint64_t)found.payload_bytes + TFRECORD_FRAME_BYTES };
}

/* The end of an extent; UINT64_MAX, which no line contains, on overflow. */
static uint64_t end_of(const struct extent *extent)
{
    uint64_t end;
    return __builtin_add_overflow(extent->offset, extent->bytes, &end) ? UINT64_MAX : end;
}

/* Describe what is wrong with a line. */
static void describe_line(uint64_t number, const struct extent *line, const struct extent *before,
                          const struct extent *record, char *problem, size_t problem_size)
{
    if (line->offset != end_of(before))
        snprintf(problem, problem_size,
                 "line %" PRIu64 ": begins at byte %" PRIu64 ", not %" PRIu64 ", where the line before ends: lines are "
                 "missing or in another order",
                 number, line->offset, end_of(before));
    else if (line->bytes < TFRECORD_FRAME_BYTES)
        snprintf(problem, problem_size, "line %" PRIu64 ": %" PRIu64 " bytes are too few for a record", number,
                 line->bytes);
    else
        snprintf(problem, problem_size,
                 "line %" PRIu64 ": says %" PRIu64 " bytes at byte %" PRIu64 ", but the shard has %" PRIu64
                 " at byte %" PRIu64 ": it is of another file, or of an older version of this file",
                 number, line->bytes, line->offset, record->bytes, record->offset);
}

static bool line_agrees(struct lines *lines, struct extent *before, const struct extent *record, char *problem,
                        size_t problem_size)
{
    struct extent line;
    lines->number++;
    if (!parse_line(lines, &line)) {
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
    struct extent before = { 0, 0 };
    for (uint64_t i = 0; i < index->record_count && lines.at < lines.end; i++) {
        const struct extent record = extent_of(index, i);
        if (!line_agrees(&lines, &before, &record, problem_out, problem_size))
            return false;
    }
    if (lines.at == lines.end && lines.number == index->record_count)
        return true;
    snprintf(problem_out, problem_size, "has %s lines than the shard has records (%" PRIu64 "): %s",
             lines.at < lines.end ? "more" : "fewer", index->record_count,
             lines.at < lines.end ? "the shard was truncated, or the index is of another file"
                                  : "the index was truncated, or the shard has grown");
    return false;
}
