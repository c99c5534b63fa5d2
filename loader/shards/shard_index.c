/* Builds the index of a shard by walking along its headers. Called while a data set is opened, before threads are
 * started. */
#include "loader/shards/shard_index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "formats/tfrecord.h"
#include "loader/shards/catalog.h"
#include "loader/shards/range_crc.h"
#include "loader/shards/shard_kind.h"
#include "stage/file/file.h"
#include "stage/log.h"

/* With the large window small records are read sequentially. With the small one, used after a long payload, little more
 * than headers is read. */
#define WINDOW_BYTES (1u << 20)
#define WINDOW_SPARSE_BYTES 4096u
#define PAYLOAD_LONG_BYTES (32u << 10)
#define PATH_TEXT_BYTES 1024u
#define PROBLEM_TEXT_BYTES 256u
/* Searches for the next record over more bytes than this are reported. */
#define SEARCH_QUIET_BYTES ((uint64_t)64 << 20)

void frame_problem_describe(enum tfrecord_check check, const struct tfrecord_problem *problem, char *text,
                            size_t text_size)
{
    const char *what = tfrecord_check_text(check);
    switch (check) {
    case TFRECORD_OK:
        snprintf(text, text_size, "%s", what);
        break;
    case TFRECORD_LENGTH_CRC:
    case TFRECORD_PAYLOAD_CRC:
        snprintf(text, text_size, "%s (stored %08" PRIx32 ", computed %08" PRIx32 ")", what, problem->stored_crc,
                 problem->computed_crc);
        break;
    case TFRECORD_TOO_LONG:
        snprintf(text, text_size, "%s (%" PRIu64 " bytes, the limit is %" PRIu64 ")", what, problem->needed_bytes,
                 problem->available_bytes);
        break;
    case TFRECORD_CUT:
        snprintf(text, text_size, "%s (needs %" PRIu64 " bytes, %" PRIu64 " are left)", what, problem->needed_bytes,
                 problem->available_bytes);
        break;
    }
}

struct walk {
    struct shard_source *source;
    const struct shard_index_options *options;
    char path[PATH_TEXT_BYTES];     /* escaped path, for messages */
    struct shard_index *index;
    uint8_t *window;                /* buffer of WINDOW_BYTES: the window_bytes of the stream from window_offset on */
    uint64_t window_offset;
    size_t window_bytes;
    uint64_t whole_from, whole_to;  /* range of the stream without a break; unknown if whole_from > whole_to */
    size_t read_bytes;              /* size of the next window */
    struct range_crc crcs;       /* CRCs of payloads during resynchronisation, when any bytes may look like headers */
    char *problem;
    size_t problem_size;
};

static int report_unreadable(struct walk *walk, uint64_t offset, int result)
{
    snprintf(walk->problem, walk->problem_size, "%s: byte %" PRIu64 ": cannot be read: %s", walk->path, offset,
             strerror(-result));
    return result;
}

static bool is_unwanted(const struct walk *walk)
{
    return walk->options->is_unwanted != NULL && atomic_load(walk->options->is_unwanted);
}

/* Move the window to contain `bytes` of the stream at `offset`, which are known to be inside it. 0 or a negative errno:
 * the file may have been truncated in the meantime, or indexing may have been cancelled, which is checked here once per
 * window. */
static int window_move(struct walk *walk, uint64_t offset, size_t bytes)
{
    const bool is_inside = offset >= walk->window_offset
        && offset - walk->window_offset + bytes <= walk->window_bytes;
    if (is_inside)
        return 0;
    if (is_unwanted(walk))
        return -ECANCELED;
    const ssize_t got = shard_source_read(walk->source, walk->window, walk->read_bytes, offset);
    if (got < 0)
        return report_unreadable(walk, offset, (int)got);
    walk->window_offset = offset;
    walk->window_bytes = (size_t)got;
    if ((size_t)got < bytes)
        return report_unreadable(walk, offset, -ESTALE);
    return 0;
}

static const uint8_t *window_at(const struct walk *walk, uint64_t offset)
{
    return walk->window + (offset - walk->window_offset);
}

/* The bytes up to the end of the stream or to its next break. */
static uint64_t bytes_left(struct walk *walk, uint64_t offset)
{
    char text[PROBLEM_TEXT_BYTES];
    if (offset < walk->whole_from || offset > walk->whole_to) {
        walk->whole_from = offset;
        walk->whole_to = shard_source_find_break(walk->source, offset, text, sizeof(text));
    }
    return (walk->whole_to < walk->index->bytes ? walk->whole_to : walk->index->bytes) - offset;
}

/* Check the header at `offset`, and whether its record ends inside the file. Returns a negative errno or an enum
 * tfrecord_check. */
static int walk_header(struct walk *walk, uint64_t offset, uint64_t *payload_bytes_out,
                       struct tfrecord_problem *problem_out)
{
    const uint64_t left = bytes_left(walk, offset);
    problem_out->available_bytes = left;
    problem_out->needed_bytes = TFRECORD_HEADER_BYTES;
    if (left < TFRECORD_HEADER_BYTES)
        return TFRECORD_CUT;
    const int rc = window_move(walk, offset, TFRECORD_HEADER_BYTES);
    if (rc < 0)
        return rc;
    const enum tfrecord_check check = tfrecord_header(window_at(walk, offset), payload_bytes_out, problem_out);
    if (check != TFRECORD_OK)
        return (int)check;
    problem_out->available_bytes = left;
    problem_out->needed_bytes = *payload_bytes_out + TFRECORD_FRAME_BYTES;
    return problem_out->needed_bytes > left ? TFRECORD_CUT : TFRECORD_OK;
}

/* The kind of a file that is probably not a shard; NULL if it seems to be one. */
static const char *foreign_kind(struct walk *walk, enum tfrecord_check check, uint64_t offset, bool *is_damage_out)
{
    const bool is_framed = check == TFRECORD_CUT && walk->index->bytes >= TFRECORD_HEADER_BYTES;
    *is_damage_out = true;
    if (offset > 0 || is_framed)
        return NULL;
    uint8_t head[SHARD_KIND_BYTES];
    const ssize_t got = shard_source_read(walk->source, head, sizeof(head), 0);
    const char *const kind = got < 0 ? NULL : shard_kind_text(head, (size_t)got);
    *is_damage_out = kind == NULL || shard_kind_is_zeros(head, (size_t)got);
    return kind;
}

/* Advice about damage. A file that is wrong from its first byte on is possibly not a shard. */
static const char *skip_advice(const struct walk *walk, uint64_t offset)
{
    if (offset == 0)
        return "; is it a TFRecord shard?";
    return walk->options->what != NULL ? SHARD_SKIP_ADVICE : "";
}

static int report_break(struct walk *walk, uint64_t offset, const char *what)
{
    snprintf(walk->problem, walk->problem_size, "%s: record %" PRIu64 " at byte %" PRIu64 ": %s%s", walk->path,
             walk->index->record_count, offset, what, walk->options->what != NULL ? SHARD_SKIP_ADVICE : "");
    return -EBADMSG;
}

static int report_check(struct walk *walk, enum tfrecord_check check, uint64_t offset,
                        const struct tfrecord_problem *problem)
{
    char what[PROBLEM_TEXT_BYTES];
    frame_problem_describe(check, problem, what, sizeof(what));
    bool is_damage;
    if (shard_source_find_break(walk->source, offset, what, sizeof(what)) != UINT64_MAX)
        return report_break(walk, offset, what);
    const char *kind = foreign_kind(walk, check, offset, &is_damage);
    if (kind != NULL)
        snprintf(walk->problem, walk->problem_size, "%s: not a TFRecord shard: %s (record 0 at byte 0: %s)",
                 walk->path, kind, what);
    else
        snprintf(walk->problem, walk->problem_size, "%s: record %" PRIu64 " at byte %" PRIu64 ": %s%s", walk->path,
                 walk->index->record_count, offset, what, skip_advice(walk, offset));
    return is_damage ? -EBADMSG : -ENOTSUP;
}

/* Returns 1 if a frame with two correct checksums begins at `offset`, 0 if not, or a negative errno. */
static int frame_is_whole(struct walk *walk, uint64_t offset)
{
    uint64_t payload_bytes;
    uint32_t payload_crc;
    uint8_t footer[TFRECORD_FOOTER_BYTES];
    struct tfrecord_problem problem;
    const int check = walk_header(walk, offset, &payload_bytes, &problem);
    if (check != TFRECORD_OK)
        return check < 0 ? check : 0;
    const uint64_t payload_offset = offset + TFRECORD_HEADER_BYTES;
    const int rc = range_crc_find(&walk->crcs, payload_offset, payload_bytes, &payload_crc);
    if (rc < 0)
        return rc == -ENOMEM || rc == -ECANCELED ? rc : report_unreadable(walk, offset, rc);
    const ssize_t got = shard_source_read(walk->source, footer, sizeof(footer), payload_offset + payload_bytes);
    if (got < 0)
        return report_unreadable(walk, offset, (int)got);
    return got == (ssize_t)sizeof(footer) && tfrecord_footer(footer, payload_crc, &problem) == TFRECORD_OK;
}

static void report_search(const struct walk *walk, uint64_t damage)
{
    if (walk->options->what != NULL)
        log_message(LOG_RUN, "%s: %s: searching for the next record after byte %" PRIu64, walk->options->what,
                    walk->path, damage);
}

/* The number of positions from `offset` on that can be skipped because a header there would be all zeros. Files that
 * were extended but not written have long runs of zeros. */
static uint64_t zeros_at(const struct walk *walk, uint64_t offset)
{
    if (offset < walk->window_offset || offset >= walk->window_offset + walk->window_bytes)
        return 0;
    const uint8_t *const at = window_at(walk, offset);
    const size_t bytes = (size_t)(walk->window_offset + walk->window_bytes - offset);
    size_t zeros = 0;
    while (zeros < bytes && at[zeros] == 0)
        zeros++;
    return zeros > TFRECORD_HEADER_BYTES ? zeros - TFRECORD_HEADER_BYTES : 0;
}

/* Find the first valid frame after the damage, or the end of the file. */
static int resynchronize(struct walk *walk, uint64_t damage, uint64_t *found_out)
{
    uint64_t offset = damage + 1;
    bool is_reported = false;
    walk->read_bytes = WINDOW_BYTES;
    for (; offset < walk->index->bytes; offset += 1 + zeros_at(walk, offset)) {
        if (offset - damage >= SEARCH_QUIET_BYTES && !is_reported)
            report_search(walk, damage);
        is_reported = offset - damage >= SEARCH_QUIET_BYTES;
        const int is_whole = frame_is_whole(walk, offset);
        if (is_whole < 0)
            return is_whole;
        if (is_whole)
            break;
    }
    *found_out = offset;
    return 0;
}

/* If damage was found at `offset` in a broken unit of a compressed stream, the record before it may be damaged as well:
 * check that record. */
static int look_back(struct walk *walk, uint64_t offset, struct shard_damage *damage)
{
    const struct shard_index *const index = walk->index;
    const uint64_t unit = shard_source_break_begin(walk->source, offset);
    damage->unit_offset = unit < offset ? unit : offset;
    damage->bad_offset = offset;
    if (index->record_count == 0)
        return 0;
    const struct shard_record last = shard_index_find(index, index->record_count - 1);
    if (last.offset < damage->unit_offset || last.offset + last.payload_bytes + TFRECORD_FRAME_BYTES != offset)
        return 0;
    const int is_whole = frame_is_whole(walk, last.offset);
    if (is_whole == 0)
        damage->bad_offset = last.offset;
    return is_whole < 0 ? is_whole : 0;
}

/* Skip damage at `offset`. A file without any valid record is not a shard. */
static int walk_damage(struct walk *walk, uint64_t offset, enum tfrecord_check check,
                       const struct tfrecord_problem *problem, uint64_t *next_out)
{
    struct shard_index *const index = walk->index;
    struct shard_damage damage;
    int rc = look_back(walk, offset, &damage);
    if (rc == 0)
        rc = resynchronize(walk, offset, next_out);
    if (rc < 0)
        return rc;
    if (*next_out == index->bytes && index->record_count == 0)
        return report_check(walk, check, 0, problem);
    rc = shard_index_add_damage(index, *next_out - offset);
    if (rc < 0)
        return rc;
    index->damages[index->damage_count - 1].unit_offset = damage.unit_offset;
    index->damages[index->damage_count - 1].bad_offset = damage.bad_offset;
    return 0;
}

/* Walk past a record. One read gets its footer and the header of the next record. */
static int walk_record(struct walk *walk, uint64_t offset, uint32_t payload_bytes, uint64_t *next_out)
{
    struct shard_index *const index = walk->index;
    const uint64_t footer = offset + TFRECORD_HEADER_BYTES + payload_bytes;
    walk->read_bytes = payload_bytes > PAYLOAD_LONG_BYTES ? WINDOW_SPARSE_BYTES : WINDOW_BYTES;
    const int rc = window_move(walk, footer, TFRECORD_FOOTER_BYTES);
    if (rc < 0)
        return rc;
    index->contents = XXH3_64bits_withSeed(window_at(walk, footer), TFRECORD_FOOTER_BYTES, index->contents);
    *next_out = footer + TFRECORD_FOOTER_BYTES;
    return shard_index_add_record(index, payload_bytes);
}

/* Find the size of the stream. The size and breaks of a compressed stream are known only after reading all of it; this
 * is done window by window, so that it can be cancelled. */
static int find_size(struct walk *walk)
{
    ssize_t got = walk->source->ops->find_break != NULL;
    uint64_t offset = 0;
    for (; got > 0; offset += (uint64_t)got) {
        if (is_unwanted(walk))
            return -ECANCELED;
        got = shard_source_read(walk->source, walk->window, WINDOW_BYTES, offset);
        if (got < 0)
            return report_unreadable(walk, offset, (int)got);
    }
    const int rc = shard_source_size(walk->source, &walk->index->bytes);
    return rc < 0 ? report_unreadable(walk, 0, rc) : 0;
}

static int walk_shard(struct walk *walk)
{
    uint64_t offset = 0;
    int rc = find_size(walk);
    while (rc == 0 && offset < walk->index->bytes) {
        uint64_t payload_bytes;
        struct tfrecord_problem problem;
        const int check = walk_header(walk, offset, &payload_bytes, &problem);
        if (check < 0)
            rc = check;
        else if (check == TFRECORD_OK)
            rc = walk_record(walk, offset, (uint32_t)payload_bytes, &offset);
        else if (walk->options->skip_damage)
            rc = walk_damage(walk, offset, (enum tfrecord_check)check, &problem, &offset);
        else
            rc = report_check(walk, (enum tfrecord_check)check, offset, &problem);
    }
    return rc;
}

static int index_build(struct shard_index *index, struct shard_source *source,
                       const struct shard_index_options *options, char *problem, size_t problem_size)
{
    struct walk walk = {
        .source = source,
        .options = options,
        .crcs = { .source = source, .is_unwanted = options->is_unwanted },
        .index = index,
        .whole_from = 1,
        .read_bytes = WINDOW_BYTES,
        .problem = problem,
        .problem_size = problem_size,
    };
    log_escape(source->path, strlen(source->path), walk.path, sizeof(walk.path));
    walk.window = malloc(WINDOW_BYTES);
    const int rc = walk.window != NULL ? walk_shard(&walk) : -ENOMEM;
    if (rc == -ENOMEM)
        snprintf(problem, problem_size, "%s: not enough memory for its index", walk.path);
    free(walk.window);
    range_crc_release(&walk.crcs);
    return rc;
}

/* Read the length in a record's header. False if the header is damaged. */
static bool read_length(struct shard_source *source, const struct shard_record *record, uint64_t *length_out)
{
    uint8_t header[TFRECORD_HEADER_BYTES];
    struct tfrecord_problem problem;
    return shard_source_read(source, header, sizeof(header), record->offset) == (ssize_t)sizeof(header) &&
           tfrecord_header(header, length_out, &problem) == TFRECORD_OK;
}

static bool is_as_said(struct shard_source *source, const struct shard_index *index, uint64_t number)
{
    const struct shard_record record = shard_index_find(index, number);
    uint64_t length;
    return read_length(source, &record, &length) && length == record.payload_bytes;
}

/* Can an index from a file be used? One with damage is never used, since the file may be forged: the shard is walked
 * again. Only the first and the last record are checked here; shard_index_prove checks the others if one turns out to
 * be wrong. */
static bool is_usable(const struct shard_index *index, struct shard_source *source)
{
    const uint64_t count = index->record_count;
    return index->damage_count == 0 &&
           (count == 0 || (is_as_said(source, index, 0) && is_as_said(source, index, count - 1)));
}

/* xxh3 of the stored payload checksums of some records. In a plain shard the records are evenly spaced. In a compressed
 * one they are the first ones, since it can only be read from its beginning. */
static int sample_checksums(const struct shard_index *index, struct shard_source *source, uint64_t *sample_out)
{
    const uint64_t count = index->record_count < SHARD_INDEX_SAMPLE ? index->record_count : SHARD_INDEX_SAMPLE;
    uint8_t footers[SHARD_INDEX_SAMPLE][TFRECORD_FOOTER_BYTES];
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t number = source->ops->is_plain ? (uint64_t)((__uint128_t)index->record_count * i / count) : i;
        const struct shard_record record = shard_index_find(index, number);
        const uint64_t at = record.offset + TFRECORD_HEADER_BYTES + record.payload_bytes;
        const ssize_t got = shard_source_read(source, footers[i], TFRECORD_FOOTER_BYTES, at);
        if (got != (ssize_t)TFRECORD_FOOTER_BYTES)
            return got < 0 ? (int)got : -ESTALE;
    }
    *sample_out = XXH3_64bits(footers, count * TFRECORD_FOOTER_BYTES);
    return 0;
}

static int take_sample(struct shard_index *index, struct shard_source *source, char *problem, size_t problem_size)
{
    char path[PATH_TEXT_BYTES];
    const int rc = sample_checksums(index, source, &index->sample);
    if (rc == 0)
        return 0;
    log_escape(source->path, strlen(source->path), path, sizeof(path));
    snprintf(problem, problem_size, "%s: cannot be read: %s", path, strerror(-rc));
    return rc;
}

/* Does the index belong to the contents of the shard? A different change time (ctime) may come from chmod or from
 * writing in place. Therefore a sample of the checksums is compared, and if they agree the index is given the new
 * time. */
static bool is_unchanged(struct shard_index *index, struct shard_source *source)
{
    uint64_t sample = 0;
    if (index->stamp.ctime_ns == source->stamp.ctime_ns)
        return true;
    if (sample_checksums(index, source, &sample) < 0 || sample != index->sample)
        return false;
    index->stamp = source->stamp;
    index_file_write(index, source->path);
    return true;
}

/* The number in the shard of the i-th record of a fingerprint of `count` records. */
static uint64_t fingerprint_record(uint64_t all, uint64_t count, uint64_t i)
{
    return count < 2 ? 0 : (uint64_t)((__uint128_t)(all - 1) * i / (count - 1));
}

static uint64_t fingerprint_count(uint64_t all)
{
    return all < SHARD_FINGERPRINT_RECORDS ? all : SHARD_FINGERPRINT_RECORDS;
}

static uint64_t crc_offset(const struct shard_index *index, uint64_t number)
{
    const struct shard_record record = shard_index_at(index, number);
    return record.offset + TFRECORD_HEADER_BYTES + record.payload_bytes;
}

int shard_fingerprint(const struct shard_index *index, struct shard_source *source, uint64_t *fingerprint_out)
{
    uint8_t footers[SHARD_FINGERPRINT_RECORDS][TFRECORD_FOOTER_BYTES];
    const uint64_t all = index->record_count + index->left_out, count = fingerprint_count(all);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t number = source->ops->is_plain ? fingerprint_record(all, count, i) : i;
        const ssize_t got = shard_source_read(source, footers[i], TFRECORD_FOOTER_BYTES, crc_offset(index, number));
        if (got != (ssize_t)TFRECORD_FOOTER_BYTES)
            return got < 0 ? (int)got : -ESTALE;
    }
    *fingerprint_out = XXH3_64bits(footers, count * TFRECORD_FOOTER_BYTES);
    return 0;
}

int shard_index_recognise(void *index, int fd)
{
    struct shard_index *const listed = index;
    uint8_t footers[SHARD_FINGERPRINT_RECORDS][TFRECORD_FOOTER_BYTES];
    const uint64_t all = listed->record_count + listed->left_out, count = fingerprint_count(all);
    bool is_shorter = false;
    for (uint64_t i = 0; i < count; i++) {
        const int rc = file_read_at(fd, crc_offset(listed, fingerprint_record(all, count, i)), footers[i],
                                    TFRECORD_FOOTER_BYTES);
        if (rc < 0 && rc != -EBADMSG)
            return rc;
        is_shorter = is_shorter || rc < 0;
    }
    if (!is_shorter && XXH3_64bits(footers, count * TFRECORD_FOOTER_BYTES) == listed->fingerprint)
        return 0;
    atomic_store(&listed->is_foreign, true);
    return -EBADMSG;
}

void shard_index_describe_stale(const struct shard_index *index, char *text_out, size_t text_size)
{
    const bool is_newer = index->listed_ns != 0 && index->stamp.mtime_ns > index->listed_ns;
    if (index->listed_in != NULL && strcmp(index->listed_in, SHARD_LISTED_BY_RANK) == 0)
        snprintf(text_out, text_size, "is another file than the one that " SHARD_LISTED_BY_RANK " describes%s",
                 is_newer ? " from a catalog, which is older than the file: " CATALOG_ADVICE ", unless the file is another "
                            "one on the host of rank 0, as all hosts need the same shards"
                          : ": all hosts need the same shards");
    else if (index->listed_in != NULL)
        snprintf(text_out, text_size, "is another file than the one that %s describes%s: restore it, or " CATALOG_ADVICE,
                 index->listed_in, is_newer ? ", which is older than the file" : "");
    else
        snprintf(text_out, text_size, "its index file says another length of a record than the record does: it is "
                 "removed, and the same command rebuilds it (data.index_cache = no uses none)");
}

int shard_index_prove(struct shard_index *index, struct shard_source *source)
{
    if (atomic_load(&index->is_foreign))
        return -ESTALE;
    if (!atomic_exchange(&index->is_unproved, false))
        return 0;
    for (uint64_t i = 0; i < index->record_count; i++) {
        const struct shard_record record = shard_index_find(index, i);
        uint64_t length;
        if (read_length(source, &record, &length) && length != record.payload_bytes) {
            if (index->listed_in != NULL)
                atomic_store(&index->is_foreign, true);
            else
                index_file_remove(source->path);
            return -ESTALE;
        }
    }
    return 0;
}

int shard_index_open(struct shard_index *index_out, struct shard_source *source,
                     const struct shard_index_options *options, char *problem_out, size_t problem_size)
{
    struct shard_index index = { .stamp = source->stamp };
    if (options->use_cache && !options->rebuild && index_file_read(&index, source) == 0) {
        if (is_usable(&index, source) && is_unchanged(&index, source)) {
            *index_out = index;
            atomic_store(&index_out->is_unproved, true);
            return 0;
        }
        shard_index_release(&index);
        index = (struct shard_index){ .stamp = source->stamp };
    }
    int rc = index_build(&index, source, options, problem_out, problem_size);
    if (rc == 0 && index.damage_count == 0)
        rc = take_sample(&index, source, problem_out, problem_size);
    if (rc < 0) {
        shard_index_release(&index);
        return rc;
    }
    shard_index_trim(&index);
    if (options->use_cache && index.damage_count == 0)
        index_file_write(&index, source->path);
    *index_out = index;
    return 0;
}

int shard_index_lose(struct shard_index *index_out, struct shard_source *source)
{
    struct shard_index index = { .stamp = source->stamp };
    int rc = shard_source_size(source, &index.bytes);
    if (rc == 0)
        rc = shard_index_add_damage(&index, index.bytes);
    if (rc == 0)
        *index_out = index;
    return rc;
}

bool shard_index_counts(const struct shard_index *index, uint64_t damage)
{
    return damage + 1 == index->damage_count ||
           index->damages[damage + 1].unit_offset > index->damages[damage].offset;
}

uint64_t shard_index_lost(const struct shard_index *index)
{
    uint64_t lost = 0;
    for (uint64_t i = 0; i < index->damage_count; i++)
        lost += shard_index_counts(index, i) && index->damages[i].bad_offset == index->damages[i].offset;
    return lost;
}
