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

/* What one thread has at hand. The block grows to the largest frame and stays. */
struct desk {
    struct work *work;
    struct shard_file *file;
    FILE *stream;
    void *scratch;
    uint8_t *frame;
    size_t frame_room;
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

static int frame_reserve(struct desk *desk, size_t bytes)
{
    if (bytes <= desk->frame_room)
        return 0;
    uint8_t *frame = realloc(desk->frame, bytes);
    if (frame == NULL)
        return out_of_memory(desk);
    desk->frame = frame;
    desk->frame_room = bytes;
    return 0;
}

/* What the samples say and what the file says go through this one function. */
static void hash_value(XXH3_state_t *hash, const char *name, size_t name_bytes, const struct feature *feature)
{
    const uint64_t head[4] = { name_bytes, feature->kind, feature->byte_count, (uint64_t)feature->int64 };

    XXH3_64bits_update(hash, head, sizeof(head));
    XXH3_64bits_update(hash, name, name_bytes);
    if (feature->byte_count > 0)
        XXH3_64bits_update(hash, feature->bytes, feature->byte_count);
}

static void hash_sample(XXH3_state_t *hash, const struct example_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct feature feature = {
            .kind = values[i].kind,
            .bytes = values[i].kind == FEATURE_BYTES ? values[i].bytes : NULL,
            .byte_count = values[i].kind == FEATURE_BYTES ? values[i].byte_count : 0,
            .int64 = values[i].kind == FEATURE_INT64S ? values[i].int64 : 0,
        };
        hash_value(hash, values[i].name, strlen(values[i].name), &feature);
    }
}

static int hash_read(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    hash_value(arg, name, name_bytes, feature);
    return feature->value_count == 1 ? 0 : -EBADMSG;
}

/* Of a sample with a raw image. */
static void add_pixels(const struct desk *desk, const struct example_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(values[i].name, "image_raw") == 0)
            pixel_sums_add(&desk->file->pixels, values[i].bytes, values[i].byte_count, desk->work->set->spec.channels);
    }
}

static int write_sample(struct desk *desk, uint64_t index)
{
    const struct sample_source *source = desk->file->source;
    struct example_value values[SAMPLE_VALUES_MAX];
    size_t count;

    int rc = source->sample(source->arg, index, desk->scratch, values, &count);
    if (rc < 0)
        return rc;
    hash_sample(desk->hash, values, count);
    if (desk->work->set->spec.channels > 0)
        add_pixels(desk, values, count);
    const size_t payload_bytes = example_size(values, count);
    const size_t frame_bytes = payload_bytes + TFRECORD_FRAME_BYTES;
    rc = frame_reserve(desk, frame_bytes);
    if (rc < 0)
        return rc;

    uint8_t *payload = desk->frame + TFRECORD_HEADER_BYTES;
    tfrecord_write_header(payload_bytes, desk->frame);
    example_write(values, count, payload);
    tfrecord_write_footer(payload, payload_bytes, payload + payload_bytes);
    desk->file->bytes += frame_bytes;
    if (fwrite(desk->frame, 1, frame_bytes, desk->stream) != frame_bytes)
        return fail(desk, EXIT_CODE_OUTPUT, "write", errno);
    return 0;
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

/* Read one frame into desk->frame: whole and with both checksums right. */
static int read_frame(struct desk *desk, uint64_t record, uint64_t *payload_bytes_out)
{
    struct tfrecord_problem problem;
    size_t bytes = fread(desk->frame, 1, TFRECORD_HEADER_BYTES, desk->stream);

    if (bytes < TFRECORD_HEADER_BYTES)
        return reads_differently(desk, record, tfrecord_check_text(TFRECORD_CUT));
    enum tfrecord_check check = tfrecord_header(desk->frame, payload_bytes_out, &problem);
    if (check != TFRECORD_OK)
        return reads_differently(desk, record, tfrecord_check_text(check));
    const size_t rest = (size_t)*payload_bytes_out + TFRECORD_FOOTER_BYTES;
    if (bytes + rest > desk->frame_room)
        return reads_differently(desk, record, "longer than any record written");
    bytes += fread(desk->frame + bytes, 1, rest, desk->stream);
    check = tfrecord_verify(desk->frame, bytes, payload_bytes_out, &problem);
    if (check != TFRECORD_OK)
        return reads_differently(desk, record, tfrecord_check_text(check));
    return 0;
}

static int read_samples(struct desk *desk)
{
    XXH3_64bits_reset(desk->hash);
    for (uint64_t record = 0; record < desk->file->record_count; record++) {
        uint64_t payload_bytes;
        size_t bad_offset;

        if (must_give_up(desk->work))
            return -ECANCELED;
        const int rc = read_frame(desk, record, &payload_bytes);
        if (rc < 0)
            return rc;
        if (example_visit(desk->frame + TFRECORD_HEADER_BYTES, (size_t)payload_bytes, hash_read, desk->hash,
                          &bad_offset) != 0)
            return reads_differently(desk, record, "not the tf.train.Example written");
        progress_add(&desk->work->progress, 1);
    }
    if (fgetc(desk->stream) != EOF)
        return reads_differently(desk, desk->file->record_count, "more bytes than written");
    if (XXH3_64bits_digest(desk->hash) != desk->file->content_hash)
        return reads_differently(desk, desk->file->record_count, "the hash over all records differs");
    return 0;
}

static int verify_file(struct desk *desk)
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
    return frame_reserve(desk, TFRECORD_FRAME_BYTES);
}

static void desk_release(struct desk *desk)
{
    free(desk->scratch);
    free(desk->frame);
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
            rc = verify_file(&desk);
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
        if (*order == NULL)
            *order = sample_order(file->source->record_count,
                                  random_key(work->options->seed, RANDOM_SHUFFLE, file->source_number));
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
