/* Writes shards with several threads. Each thread makes groups of records, and writes those whose turn it is. The
 * thread that writes the last group of a shard syncs the shard and reads it back. */
#include "tools/convert/shard_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "formats/compress.h"
#include "formats/tfrecord.h"
#include "stage/thread.h"
#include "tools/convert/block.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_copies.h"
#include "tools/convert/record_maker.h"
#include "tools/convert/record_queue.h"
#include "tools/convert/splits.h"
#include "tools/lib/text/progress.h"
#include "tools/shards/shard_walk.h"

/* ---- compression ---- */

static const struct packing_row {
    size_t (*bound)(size_t bytes);
    int (*write)(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);
} packing_rows[PACKING_COUNT] = {
    [PACKING_GZIP] = { gzip_write_bound, gzip_write },
    [PACKING_LZ4] = { lz4_frame_bound, lz4_frame_write },
};

/* ---- a shard being written ---- */

struct shard_sink {
    const struct shard_set *set;
    struct shard_file *file;
    FILE *stream;               /* NULL: not open */
    struct block unit, packed;  /* frames to be compressed, and the compressed frames */
    size_t unit_bytes;
    XXH3_state_t *hash;
};

#define FILE_BUFFER_BYTES ((size_t)1 << 20)

static int sink_fail(const struct shard_sink *sink, enum exit_code code, const char *what, int error)
{
    const struct shard_set *const set = sink->set;

    stop_fail(set->stop, code, "%s/%s: cannot %s: %s", set->spec.directory, sink->file->temporary_name, what,
              exit_cause(-error));
    return -error;
}

static int sink_no_memory(const struct shard_sink *sink)
{
    return convert_fail(sink->set->stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory to write shards");
}

static int shard_sink_init(struct shard_sink *sink, const struct shard_set *set)
{
    *sink = (struct shard_sink){ .set = set, .hash = XXH3_createState() };
    return sink->hash != NULL ? 0 : -ENOMEM;
}

static void shard_sink_abandon(struct shard_sink *sink)
{
    if (sink->stream != NULL)
        fclose(sink->stream);
    sink->stream = NULL;
}

static void shard_sink_release(struct shard_sink *sink)
{
    shard_sink_abandon(sink);
    block_release(&sink->unit);
    block_release(&sink->packed);
    XXH3_freeState(sink->hash);
}

static void shard_hash_payload(XXH3_state_t *hash, const uint8_t *payload, uint64_t bytes)
{
    XXH3_64bits_update(hash, &bytes, sizeof(bytes));
    XXH3_64bits_update(hash, payload, bytes);
}

static int shard_sink_open(struct shard_sink *sink, struct shard_file *file)
{
    sink->file = file;
    const int fd = shard_set_create(sink->set, file->temporary_name);
    if (fd < 0)
        return sink_fail(sink, EXIT_CODE_OUTPUT, "create the file", -fd);
    sink->stream = fdopen(fd, "wb");
    if (sink->stream == NULL) {
        close(fd);
        return sink_no_memory(sink);
    }
    setvbuf(sink->stream, NULL, _IOFBF, FILE_BUFFER_BYTES);
    sink->unit_bytes = 0;
    XXH3_64bits_reset(sink->hash);
    return 0;
}

static int put_bytes(struct shard_sink *sink, const uint8_t *bytes, size_t count)
{
    sink->file->bytes += count;
    return fwrite(bytes, 1, count, sink->stream) == count ? 0 : sink_fail(sink, EXIT_CODE_OUTPUT, "write", errno);
}

/* Compress and write the collected frames as a unit. */
static int put_unit(struct shard_sink *sink)
{
    const struct packing_row *const packing = &packing_rows[sink->set->spec.packing];
    size_t bytes;

    if (sink->unit_bytes == 0)
        return 0;
    if (block_reserve(&sink->packed, packing->bound(sink->unit_bytes)) < 0)
        return sink_no_memory(sink);
    const int rc = packing->write(sink->unit.bytes, sink->unit_bytes, sink->packed.bytes, &bytes);
    if (rc < 0)
        return sink_fail(sink, exit_code_of(rc, EXIT_CODE_OUTPUT), "compress", -rc);
    sink->unit_bytes = 0;
    return put_bytes(sink, sink->packed.bytes, bytes);
}

static int shard_sink_put(struct shard_sink *sink, const uint8_t *frame, size_t bytes)
{
    shard_hash_payload(sink->hash, frame + TFRECORD_HEADER_BYTES, bytes - TFRECORD_FRAME_BYTES);
    if (sink->set->spec.packing == PACKING_NONE)
        return put_bytes(sink, frame, bytes);
    if (block_reserve(&sink->unit, PACKING_UNIT_BYTES + bytes) < 0)
        return sink_no_memory(sink);
    memcpy(sink->unit.bytes + sink->unit_bytes, frame, bytes);
    sink->unit_bytes += bytes;
    return sink->unit_bytes >= PACKING_UNIT_BYTES ? put_unit(sink) : 0;
}

static int shard_sink_finish(struct shard_sink *sink)
{
    sink->file->content_hash = XXH3_64bits_digest(sink->hash);
    int rc = put_unit(sink);
    if (rc < 0)
        return rc;
    if (fflush(sink->stream) != 0 || fsync(fileno(sink->stream)) != 0)
        return sink_fail(sink, EXIT_CODE_OUTPUT, "write", errno);
    rc = fclose(sink->stream) != 0 ? sink_fail(sink, EXIT_CODE_OUTPUT, "write", errno) : 0;
    sink->stream = NULL;
    return rc;
}

/* ---- reading a shard back ---- */

struct reading_back {
    const struct shard_set *set;
    const struct shard_file *file;
    struct progress *progress;
    char *path;
    struct shard_walk walk;
    struct chunk chunk;
    XXH3_state_t *hash;
};

static int read_back_fail(const struct reading_back *reading, uint64_t record, const char *how)
{
    return convert_fail(reading->set->stop, EXIT_CODE_OUTPUT, -EIO, "%s/%s record %" PRIu64 ": reads back wrong: %s",
                        reading->set->spec.directory, reading->file->temporary_name, record, how);
}

/* Verify and hash the records of the chunk. */
static int read_chunk(struct reading_back *reading)
{
    struct chunk_record record = { 0 };
    struct record_problem problem;

    while (chunk_next(&reading->chunk, &record)) {
        if (stop_failed(reading->set->stop))
            return -ECANCELED;
        if (!chunk_record_verify(&record, reading->walk.source, &problem))
            return read_back_fail(reading, record.record, problem.text);
        shard_hash_payload(reading->hash, record.payload, record.payload_bytes);
        progress_add(reading->progress, 1);
    }
    return 0;
}

/* Read all records with the reader that training uses. */
static int read_records(struct reading_back *reading)
{
    const uint64_t wanted = reading->file->record_count;
    int rc = 0;

    XXH3_64bits_reset(reading->hash);
    while (rc == 0 && (rc = shard_walk_next(&reading->walk, &reading->chunk)) == 0)
        rc = read_chunk(reading);
    if (rc == -EBADMSG)
        return read_back_fail(reading, reading->chunk.record, reading->chunk.problem.text);
    if (rc != -ENODATA)
        return rc;
    if (reading->walk.record != wanted)
        return read_back_fail(reading, reading->walk.record,
                              reading->walk.record < wanted ? "fewer records than written"
                                                            : "more records than written");
    return XXH3_64bits_digest(reading->hash) == reading->file->content_hash
               ? 0 : read_back_fail(reading, wanted, "the hash over all records differs");
}

static int open_read_back(struct reading_back *reading)
{
    reading->hash = XXH3_createState();
    if (reading->hash == NULL ||
        asprintf(&reading->path, "%s/%s", reading->set->spec.directory, reading->file->temporary_name) < 0) {
        reading->path = NULL;
        return -ENOMEM;
    }
    const int rc = shard_source_open(&reading->walk.source, NULL, reading->path);
    if (rc == 0 || rc == -ENOMEM)
        return rc;
    return convert_fail(reading->set->stop, EXIT_CODE_OUTPUT, rc, "%s: cannot open it for reading back: %s",
                        reading->path, exit_cause(rc));
}

static int read_back(const struct shard_set *set, const struct shard_file *file, const atomic_bool *interrupted,
                     struct progress *progress)
{
    struct reading_back reading = { .set = set, .file = file, .progress = progress, .walk.is_unwanted = interrupted };
    int rc = open_read_back(&reading);

    if (rc == 0)
        rc = read_records(&reading);
    if (rc == -ENOMEM)
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory to read shards back");
    shard_walk_release(&reading.walk);
    shard_source_close(reading.walk.source);
    chunk_release(&reading.chunk);
    XXH3_freeState(reading.hash);
    free(reading.path);
    return rc;
}

/* ---- threads ---- */

#define JOBS_MAX 1024u

/* Shared by all threads, and constant while they run, except for the progress, the queue and the sinks. A sink is
 * used by the thread that writes its shard. */
struct writing {
    struct shard_set *set;
    const struct shard_writer_options *options;
    uint64_t **orders;          /* for each source, the index of the sample at each position */
    struct image_flaws *flaws;
    struct image_copies copies;
    bool only_checks;           /* from the beginning, images are only checked, and nothing is written */
    struct progress progress;   /* each record is counted twice: when it is written, and when it is read back */
    struct record_queue queue;
    struct shard_sink *sinks;   /* one per thread, for the shards that are being written */
    size_t sink_count;
};

/* The state of one thread. */
struct writer {
    struct writing *writing;
    struct record_maker maker;
};

#define OPACITY_TEXT ", without its opacity, which training ignores: if that is the picture, store it on a background"

/* Whether images are only checked: because that was requested, or because the set cannot be written any more. */
static bool only_checks(const struct writer *writer)
{
    return writer->writing->only_checks || image_flaws_refuse(writer->writing->flaws);
}

/* Add the image of a record to the summary, and add its flaws. */
static void note_image(struct writer *writer, struct record_group *group, uint64_t index, const uint8_t *payload,
                       size_t bytes)
{
    const struct writing *const writing = writer->writing;
    const struct shard_set_spec *const spec = &writing->set->spec;
    const struct sample_names names = { .image = spec->image_key, .label = spec->label_key, .is_in_rows = true };
    const struct shard_file *const file = group->file;
    const struct sample_source *const source = file->source;
    struct pixel_look look = record_maker_look(&writer->maker);
    struct found_sample sample;
    size_t bad_offset;

    if (found_sample_read(&names, payload, bytes, &sample, &bad_offset) < 0)
        sample = (struct found_sample){ .image = FOUND_NOTHING };
    image_copies_note(&writing->copies, file->source_number, index, &sample);
    const char *const flaw = image_summary_add(&group->images, &sample, &look);
    if (flaw != NULL && !writing->options->change.is_checked)
        image_flaws_add(writing->flaws, FLAW_IGNORED, source, index, flaw);
    if (look.is_flat)
        image_flaws_add(writing->flaws, FLAW_FLAT, source, index, look.loses_opacity ? OPACITY_TEXT : "");
}

static int add_frame(struct writer *writer, struct record_group *group, uint64_t index)
{
    const struct shard_set *const set = writer->writing->set;
    const uint8_t *payload;
    size_t bytes;

    const int rc = record_maker_payload(&writer->maker, group->file->source, index, &payload, &bytes);
    if (rc != 0)
        return rc < 0 ? rc : 0;     /* a damaged image is left out, because the set will not be written */
    if (block_reserve(&group->frames, group->bytes + bytes + TFRECORD_FRAME_BYTES) < 0)
        return convert_fail(set->stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory to make records");
    uint8_t *const frame = group->frames.bytes + group->bytes, *const body = frame + TFRECORD_HEADER_BYTES;
    if (bytes > 0)
        memcpy(body, payload, bytes);
    tfrecord_write_header(bytes, frame);
    tfrecord_write_footer(body, bytes, body + bytes);
    note_image(writer, group, index, body, bytes);
    group->bytes += bytes + TFRECORD_FRAME_BYTES;
    return 0;
}

/* Make the records of a group. An error has already been reported, and ends the queue. */
static void make_group(struct writer *writer, struct record_group *group)
{
    const struct shard_file *const file = group->file;
    const uint64_t *const order = writer->writing->orders[file->source_number] + file->first_position + group->first;
    int rc = 0;

    group->bytes = 0;
    group->images = (struct image_summary){ 0 };
    for (uint64_t i = 0; i < group->count && rc == 0 && !record_queue_is_over(&writer->writing->queue); i++)
        rc = add_frame(writer, group, order[i]);
}

static int put_frames(struct writer *writer, struct shard_sink *sink, const struct record_group *group)
{
    size_t at = 0;
    int rc = 0;

    while (at < group->bytes && rc == 0 && !only_checks(writer)) {
        const uint8_t *const frame = group->frames.bytes + at;
        const size_t bytes = (size_t)tfrecord_payload_bytes(frame) + TFRECORD_FRAME_BYTES;
        rc = shard_sink_put(sink, frame, bytes);
        at += bytes;
    }
    return rc;
}

static void finish_shard(struct writer *writer, struct shard_sink *sink)
{
    struct writing *const writing = writer->writing;

    if (!only_checks(writer) && shard_sink_finish(sink) == 0)
        read_back(writing->set, sink->file, writing->options->interrupted, &writing->progress);
    shard_sink_abandon(sink);
}

/* Write the next group of a shard. An error has already been reported, and ends the queue. */
static void write_group(struct writer *writer, const struct record_group *group)
{
    struct writing *const writing = writer->writing;
    struct shard_sink *const sink = &writing->sinks[record_queue_place(&writing->queue, group)];
    int rc = 0;

    if (group->first == 0 && !only_checks(writer))
        rc = shard_sink_open(sink, group->file);
    if (rc == 0 && sink->stream != NULL)
        rc = put_frames(writer, sink, group);
    image_summary_merge(&group->file->images, &group->images);
    progress_add(&writing->progress, group->count);
    if (rc == 0 && sink->stream != NULL && group->is_last)
        finish_shard(writer, sink);
}

static void writer_loop(void *arg)
{
    struct writing *const writing = arg;
    const struct shard_set_spec *const spec = &writing->set->spec;
    struct writer writer = { .writing = writing };
    struct record_group *group;
    const int rc = record_maker_open(&writer.maker, spec->sources, spec->source_count, &writing->options->change,
                                     writing->set->stop);

    writer.maker.flaws = writing->flaws;
    while (rc == 0 && (group = record_queue_take(&writing->queue)) != NULL) {
        make_group(&writer, group);
        group = record_queue_put(&writing->queue, group);
        while (group != NULL) {
            write_group(&writer, group);
            group = record_queue_written(&writing->queue, group);
        }
    }
    record_maker_close(&writer.maker);
}

static uint32_t source_count(const struct shard_set *set)
{
    return set->file_count ? set->files[set->file_count - 1].source_number + 1 : 0;
}

static int make_orders(struct writing *writing)
{
    writing->orders = calloc(source_count(writing->set) + 1, sizeof(*writing->orders));
    if (writing->orders == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < writing->set->file_count; i++) {
        const struct shard_file *file = &writing->set->files[i];
        uint64_t **order = &writing->orders[file->source_number];
        const struct random_key key = random_key(writing->options->seed, RANDOM_SHUFFLE, file->source_number);
        if (*order == NULL)
            *order = writing->options->keeps_order ? sample_order_stored(file->source->record_count)
                                                : sample_order(file->source->record_count, key);
        if (*order == NULL)
            return -ENOMEM;
    }
    return 0;
}

static void free_orders(struct writing *writing)
{
    for (uint32_t i = 0; writing->orders != NULL && i < source_count(writing->set); i++)
        free(writing->orders[i]);
    free(writing->orders);
}

static uint64_t count_records(const struct shard_set *set)
{
    uint64_t count = 0;

    for (size_t i = 0; i < set->file_count; i++)
        count += set->files[i].record_count;
    return count;
}

/* The number of threads: as requested, but at most one per record. */
static uint32_t wanted_threads(const struct writing *writing)
{
    const uint64_t records = count_records(writing->set), jobs = writing->options->jobs;
    const uint64_t wanted = jobs < records ? jobs : records;

    return wanted == 0 ? 1 : wanted < JOBS_MAX ? (uint32_t)wanted : JOBS_MAX;
}

/* Run the threads; the calling thread is one of them. */
static void run_threads(struct writing *writing, uint32_t wanted)
{
    struct thread *threads[JOBS_MAX];
    uint32_t started = 0;

    /* If a thread cannot be started, the others do its work. */
    while (started + 1 < wanted && thread_start(&threads[started], "writer", writer_loop, writing) == 0)
        started++;
    writer_loop(writing);
    for (uint32_t i = 0; i < started; i++)
        thread_join(threads[i]);
}

static int open_sinks(struct writing *writing, uint32_t count)
{
    int rc = 0;

    writing->sinks = calloc(count, sizeof(*writing->sinks));
    if (writing->sinks == NULL)
        return -ENOMEM;
    while (writing->sink_count < count && rc == 0)
        rc = shard_sink_init(&writing->sinks[writing->sink_count++], writing->set);
    return rc;
}

static void close_sinks(struct writing *writing)
{
    for (size_t i = 0; i < writing->sink_count; i++)
        shard_sink_release(&writing->sinks[i]);
    free(writing->sinks);
}

/* Whether the set has JPEG or PNG images. */
static bool has_encoded(const struct shard_set *set)
{
    uint64_t count = 0;

    for (size_t i = 0; i < set->file_count; i++)
        count += set->files[i].images.counts[FOUND_JPEG] + set->files[i].images.counts[FOUND_PNG];
    return count > 0;
}

/* Run the writing threads. 0, -ECANCELED, or a negative errno after stop_fail. Flaws are added, but not reported. */
static int run_writing(struct writing *writing, const char *title, uint32_t steps)
{
    struct shard_set *const set = writing->set;
    const uint32_t threads = wanted_threads(writing);
    int rc = record_queue_init(&writing->queue, threads, set, writing->options->interrupted);

    if (rc == 0)
        rc = make_orders(writing);
    if (rc == 0)
        rc = open_sinks(writing, threads);
    progress_begin_steps(&writing->progress, title, "records", count_records(set), steps);
    if (rc == 0)
        run_threads(writing, threads);
    else
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory to write shards");
    progress_end(&writing->progress);
    close_sinks(writing);
    free_orders(writing);
    if (rc == 0 && record_queue_is_over(&writing->queue))
        rc = -ECANCELED;
    record_queue_release(&writing->queue);
    return rc;
}

int shards_write(struct shard_set *set, const struct shard_writer_options *options)
{
    struct writing writing = { .set = set, .options = options, .flaws = image_flaws_open() };

    int rc = writing.flaws != NULL ? image_copies_init(&writing.copies, set->spec.sources, set->spec.source_count)
                                   : -ENOMEM;
    if (rc == 0)
        rc = run_writing(&writing, "writing and reading back", 2);
    else
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory to compare images");
    if (rc == 0)
        rc = image_flaws_report(writing.flaws, has_encoded(set), !image_change_is_any(&options->change), set->stop);
    if (rc == 0 && image_copies_report(&writing.copies) < 0)
        rc = convert_fail(set->stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory to compare images");
    image_copies_release(&writing.copies);
    image_flaws_close(writing.flaws);
    return rc;
}

int images_check(const struct sample_source *source, const struct shard_writer_options *options, const char *title,
                 struct image_flaws *flaws, bool *has_encoded_out, struct stop *stop)
{
    struct shard_file file = { .source = source, .record_count = source->record_count };
    struct shard_set set = { .spec = { .sources = source, .source_count = 1, .image_key = options->change.image_key },
                             .files = &file, .file_count = 1, .stop = stop };
    struct writing writing = { .set = &set, .options = options, .flaws = flaws, .only_checks = true };

    const int rc = run_writing(&writing, title, 1);
    *has_encoded_out = has_encoded(&set);
    return rc;
}
