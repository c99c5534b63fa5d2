/* The writing threads of the converters. Each thread takes the next file of the set, writes
 * it from the first record to the last, syncs it and reads it back. */
#include "tools/convert/shard_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "formats/tfrecord.h"
#include "loader/shards/shard_source.h"
#include "stage/thread.h"
#include "tools/convert/progress.h"
#include "tools/convert/sample_order.h"

#define FILE_BUFFER_BYTES ((size_t)1 << 20)
#define JOBS_MAX 1024u

/* Shared by the threads; all but progress and next_file is constant while they run. */
struct work {
    struct shard_set *set;
    const struct shard_writer_options *options;
    uint64_t **orders;          /* per source: the sample at each position */
    struct progress progress;   /* every record counts when it is written and when it is read back */
    atomic_size_t next_file;
};

/* Memory that grows to what is needed and stays. */
struct block { uint8_t *bytes; size_t room; };

/* What one thread has at hand. */
struct desk {
    struct work *work;
    struct shard_file *file;
    FILE *stream;
    struct shard_source *packed_shard;  /* in its place where a compressed one is read back */
    uint64_t read_bytes;        /* of its records' stream */
    void *scratch;
    struct block frame;
    struct block unit, packed;  /* frames to be compressed, and what they come to */
    size_t unit_bytes;
    XXH3_state_t *hash;
};

static int fail(const struct desk *desk, enum exit_code code, const char *what, int error)
{
    const struct shard_set *set = desk->work->set;

    stop_fail(set->stop, code, "%s/%s: cannot %s: %s", set->spec.directory, desk->file->temporary_name, what,
              strerror(error));
    return -error;
}

static int out_of_memory(const struct desk *desk)
{
    stop_fail(desk->work->set->stop, EXIT_CODE_MEMORY, "no memory to write shards");
    return -ENOMEM;
}

static bool must_give_up(const struct work *work)
{
    return stop_failed(work->set->stop) || atomic_load(work->options->interrupted);
}

static int reserve(const struct desk *desk, struct block *block, size_t bytes)
{
    if (bytes <= block->room)
        return 0;
    uint8_t *const grown = realloc(block->bytes, bytes);
    if (grown == NULL)
        return out_of_memory(desk);
    *block = (struct block){ grown, bytes };
    return 0;
}

/* The payload that was made, and the one that is read back. */
static void hash_payload(XXH3_state_t *hash, const uint8_t *payload, uint64_t bytes)
{
    XXH3_64bits_update(hash, &bytes, sizeof(bytes));
    XXH3_64bits_update(hash, payload, bytes);
}

/* Of a sample with a raw image. */
static void add_pixels(const struct desk *desk, const struct example_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(values[i].name, "image_raw") == 0)
            pixel_sums_add(&desk->file->pixels, values[i].bytes, values[i].byte_count, desk->work->set->spec.channels);
    }
}

static int put_bytes(struct desk *desk, const uint8_t *bytes, size_t count)
{
    desk->file->bytes += count;
    return fwrite(bytes, 1, count, desk->stream) == count ? 0 : fail(desk, EXIT_CODE_OUTPUT, "write", errno);
}

/* Compress the frames gathered. */
static int put_unit(struct desk *desk)
{
    const enum packing packing = desk->work->set->spec.packing;
    size_t bytes;

    if (desk->unit_bytes == 0)
        return 0;
    int rc = reserve(desk, &desk->packed, packing_bound(packing, desk->unit_bytes));
    if (rc < 0)
        return rc;
    rc = packing_write(packing, desk->unit.bytes, desk->unit_bytes, desk->packed.bytes, &bytes);
    if (rc < 0)
        return fail(desk, exit_code_of(rc, EXIT_CODE_OUTPUT), "compress", -rc);
    desk->unit_bytes = 0;
    return put_bytes(desk, desk->packed.bytes, bytes);
}

static int put_frame(struct desk *desk, size_t bytes)
{
    if (desk->work->set->spec.packing == PACKING_NONE)
        return put_bytes(desk, desk->frame.bytes, bytes);
    const int rc = reserve(desk, &desk->unit, PACKING_UNIT_BYTES + bytes);
    if (rc < 0)
        return rc;
    memcpy(desk->unit.bytes + desk->unit_bytes, desk->frame.bytes, bytes);
    desk->unit_bytes += bytes;
    return desk->unit_bytes >= PACKING_UNIT_BYTES ? put_unit(desk) : 0;
}

/* A payload that is there, in the frame's place. */
static int copy_payload(struct desk *desk, uint64_t index, size_t *bytes_out)
{
    const struct sample_source *source = desk->file->source;
    const uint8_t *payload;

    int rc = source->payload(source->arg, index, desk->scratch, &payload, bytes_out);
    if (rc == 0)
        rc = reserve(desk, &desk->frame, *bytes_out + TFRECORD_FRAME_BYTES);
    if (rc == 0 && *bytes_out > 0)
        memcpy(desk->frame.bytes + TFRECORD_HEADER_BYTES, payload, *bytes_out);
    return rc;
}

/* The payload of a sample, there too. */
static int make_payload(struct desk *desk, uint64_t index, size_t *bytes_out)
{
    const struct sample_source *source = desk->file->source;
    struct example_value values[SAMPLE_VALUES_MAX];
    size_t count;

    int rc = source->sample(source->arg, index, desk->scratch, values, &count);
    if (rc < 0)
        return rc;
    if (desk->work->set->spec.channels > 0)
        add_pixels(desk, values, count);
    *bytes_out = example_size(values, count);
    rc = reserve(desk, &desk->frame, *bytes_out + TFRECORD_FRAME_BYTES);
    if (rc == 0)
        example_write(values, count, desk->frame.bytes + TFRECORD_HEADER_BYTES);
    return rc;
}

static int write_sample(struct desk *desk, uint64_t index)
{
    size_t payload_bytes;
    const int rc = desk->file->source->payload != NULL ? copy_payload(desk, index, &payload_bytes)
                                                      : make_payload(desk, index, &payload_bytes);

    if (rc < 0)
        return rc;
    uint8_t *const payload = desk->frame.bytes + TFRECORD_HEADER_BYTES;
    hash_payload(desk->hash, payload, payload_bytes);
    tfrecord_write_header(payload_bytes, desk->frame.bytes);
    tfrecord_write_footer(payload, payload_bytes, payload + payload_bytes);
    return put_frame(desk, payload_bytes + TFRECORD_FRAME_BYTES);
}

static int write_samples(struct desk *desk)
{
    const uint64_t *order = desk->work->orders[desk->file->source_number] + desk->file->first_position;

    XXH3_64bits_reset(desk->hash);
    for (uint64_t i = 0; i < desk->file->record_count; i++) {
        if (must_give_up(desk->work))
            return -ECANCELED;
        const int rc = write_sample(desk, order[i]);
        if (rc < 0)
            return rc;
        progress_add(&desk->work->progress, 1);
    }
    desk->file->content_hash = XXH3_64bits_digest(desk->hash);
    const int rc = put_unit(desk);
    if (rc < 0)
        return rc;
    if (fflush(desk->stream) != 0 || fsync(fileno(desk->stream)) != 0)
        return fail(desk, EXIT_CODE_OUTPUT, "write", errno);
    return 0;
}

/* Takes over fd. */
static int open_stream(struct desk *desk, int fd, const char *mode)
{
    desk->stream = fdopen(fd, mode);
    if (desk->stream == NULL) {
        close(fd);
        return out_of_memory(desk);
    }
    setvbuf(desk->stream, NULL, _IOFBF, FILE_BUFFER_BYTES);
    return 0;
}

static int write_file(struct desk *desk)
{
    const int fd = shard_set_create(desk->work->set, desk->file->temporary_name);

    if (fd < 0)
        return fail(desk, EXIT_CODE_OUTPUT, "make the file", -fd);
    int rc = open_stream(desk, fd, "wb");
    if (rc < 0)
        return rc;
    rc = write_samples(desk);
    if (fclose(desk->stream) != 0 && rc == 0)
        rc = fail(desk, EXIT_CODE_OUTPUT, "write", errno);
    return rc;
}

static int reads_differently(const struct desk *desk, uint64_t record, const char *how)
{
    const struct shard_set *set = desk->work->set;

    stop_fail(set->stop, EXIT_CODE_OUTPUT, "%s/%s record %llu: reads back wrong: %s", set->spec.directory,
              desk->file->temporary_name, (unsigned long long)record, how);
    return -EIO;
}

/* Read what comes next of the shard's records: how many bytes, fewer at its end or where it cannot be read. */
static size_t get_bytes(struct desk *desk, uint8_t *out, size_t bytes)
{
    if (desk->packed_shard == NULL)
        return fread(out, 1, bytes, desk->stream);
    const ssize_t got = shard_source_read(desk->packed_shard, out, bytes, desk->read_bytes);
    desk->read_bytes += got > 0 ? (size_t)got : 0;
    return got > 0 ? (size_t)got : 0;
}

/* Read one frame into desk->frame: whole and with both checksums right. */
static int read_frame(struct desk *desk, uint64_t record, uint64_t *payload_bytes_out)
{
    struct tfrecord_problem problem;
    uint8_t *const frame = desk->frame.bytes;
    size_t bytes = get_bytes(desk, frame, TFRECORD_HEADER_BYTES);

    if (bytes < TFRECORD_HEADER_BYTES)
        return reads_differently(desk, record, tfrecord_check_text(TFRECORD_CUT));
    enum tfrecord_check check = tfrecord_header(frame, payload_bytes_out, &problem);
    if (check != TFRECORD_OK)
        return reads_differently(desk, record, tfrecord_check_text(check));
    const size_t rest = (size_t)*payload_bytes_out + TFRECORD_FOOTER_BYTES;
    if (bytes + rest > desk->frame.room)
        return reads_differently(desk, record, "longer than any record written");
    bytes += get_bytes(desk, frame + bytes, rest);
    check = tfrecord_verify(frame, bytes, payload_bytes_out, &problem);
    if (check != TFRECORD_OK)
        return reads_differently(desk, record, tfrecord_check_text(check));
    return 0;
}

static int read_samples(struct desk *desk)
{
    uint8_t more;

    XXH3_64bits_reset(desk->hash);
    for (uint64_t record = 0; record < desk->file->record_count; record++) {
        uint64_t payload_bytes;

        if (must_give_up(desk->work))
            return -ECANCELED;
        const int rc = read_frame(desk, record, &payload_bytes);
        if (rc < 0)
            return rc;
        hash_payload(desk->hash, desk->frame.bytes + TFRECORD_HEADER_BYTES, payload_bytes);
        progress_add(&desk->work->progress, 1);
    }
    if (get_bytes(desk, &more, 1) > 0)
        return reads_differently(desk, desk->file->record_count, "more bytes than written");
    if (XXH3_64bits_digest(desk->hash) != desk->file->content_hash)
        return reads_differently(desk, desk->file->record_count, "the hash over all records differs");
    return 0;
}

static int verify_plain(struct desk *desk)
{
    const int fd = openat(desk->work->set->directory_fd, desk->file->temporary_name,
                          O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return fail(desk, EXIT_CODE_OUTPUT, "open it again", errno);
    int rc = open_stream(desk, fd, "rb");
    if (rc < 0)
        return rc;
    rc = read_samples(desk);
    fclose(desk->stream);
    return rc;
}

/* By the reader that training has. */
static int verify_packed(struct desk *desk)
{
    char *path;

    if (asprintf(&path, "%s/%s", desk->work->set->spec.directory, desk->file->temporary_name) < 0)
        return out_of_memory(desk);
    desk->read_bytes = 0;
    int rc = shard_source_open(&desk->packed_shard, NULL, path);
    if (rc == 0)
        rc = read_samples(desk);
    else
        rc = fail(desk, exit_code_of(rc, EXIT_CODE_OUTPUT), "open it again", -rc);
    shard_source_close(desk->packed_shard);
    desk->packed_shard = NULL;
    free(path);
    return rc;
}

static size_t scratch_bytes(const struct shard_set *set)
{
    size_t bytes = 1;

    for (size_t i = 0; i < set->file_count; i++) {
        if (set->files[i].source->scratch_bytes > bytes)
            bytes = set->files[i].source->scratch_bytes;
    }
    return bytes;
}

static int desk_init(struct desk *desk, struct work *work)
{
    *desk = (struct desk){ .work = work };
    desk->scratch = malloc(scratch_bytes(work->set));
    desk->hash = XXH3_createState();
    if (desk->scratch == NULL || desk->hash == NULL)
        return out_of_memory(desk);
    return reserve(desk, &desk->frame, TFRECORD_FRAME_BYTES);
}

static void desk_release(struct desk *desk)
{
    free(desk->scratch);
    free(desk->frame.bytes);
    free(desk->unit.bytes);
    free(desk->packed.bytes);
    XXH3_freeState(desk->hash);
}

static void writer_loop(void *arg)
{
    struct work *work = arg;
    struct desk desk;
    int rc = desk_init(&desk, work);

    while (rc == 0) {
        const size_t next = atomic_fetch_add(&work->next_file, 1);
        if (next >= work->set->file_count)
            break;
        desk.file = &work->set->files[next];
        rc = write_file(&desk);
        if (rc == 0)
            rc = work->set->spec.packing == PACKING_NONE ? verify_plain(&desk) : verify_packed(&desk);
    }
    desk_release(&desk);
}

static uint32_t source_count(const struct shard_set *set)
{
    return set->file_count ? set->files[set->file_count - 1].source_number + 1 : 0;
}

static int make_orders(struct work *work)
{
    work->orders = calloc(source_count(work->set) + 1, sizeof(*work->orders));
    if (work->orders == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < work->set->file_count; i++) {
        const struct shard_file *file = &work->set->files[i];
        uint64_t **order = &work->orders[file->source_number];
        const struct random_key key = random_key(work->options->seed, RANDOM_SHUFFLE, file->source_number);
        if (*order == NULL)
            *order = work->options->keeps_order ? sample_order_stored(file->source->record_count)
                                                : sample_order(file->source->record_count, key);
        if (*order == NULL)
            return -ENOMEM;
    }
    return 0;
}

static void free_orders(struct work *work)
{
    for (uint32_t i = 0; work->orders != NULL && i < source_count(work->set); i++)
        free(work->orders[i]);
    free(work->orders);
}

static void run_threads(struct work *work)
{
    struct thread *threads[JOBS_MAX];
    uint32_t started = 0;
    uint32_t wanted = work->options->jobs < JOBS_MAX ? work->options->jobs : JOBS_MAX;

    if (wanted > work->set->file_count)
        wanted = (uint32_t)work->set->file_count;
    while (started < wanted && thread_start(&threads[started], "writer", writer_loop, work) == 0)
        started++;
    if (started == 0)
        writer_loop(work);      /* no thread to be had, or nothing to write */
    for (uint32_t i = 0; i < started; i++)
        thread_join(threads[i]);
}

static uint64_t count_records(const struct shard_set *set)
{
    uint64_t count = 0;

    for (size_t i = 0; i < set->file_count; i++)
        count += set->files[i].record_count;
    return count;
}

int shards_write(struct shard_set *set, const struct shard_writer_options *options)
{
    struct work work = { .set = set, .options = options };
    int rc = make_orders(&work);

    atomic_init(&work.next_file, 0);
    progress_begin(&work.progress, "writing and reading back", "records", 2 * count_records(set));
    if (rc == 0)
        run_threads(&work);
    else
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory for the order of the records");
    progress_end(&work.progress);
    free_orders(&work);
    if (rc == 0 && must_give_up(&work))
        rc = -ECANCELED;
    return rc;
}
