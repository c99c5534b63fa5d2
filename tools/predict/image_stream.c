/* The images of standard input: the reading thread, the decoding threads, and what main does with them. The reading
 * thread waits in one place, await_event, for input, for answers and for the end; it waits for the decoders in the
 * queue that leads to them. Answers reach it as a number in an event counter. */
#include "tools/predict/image_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/queue.h"
#include "stage/thread.h"
#include "tools/predict/image_decoder.h"

#define CHUNK_BYTES ((size_t)64 << 10)
#define LENGTH_BYTES 4u
#define NS_PER_S UINT64_C(1000000000)
#define ENDED (UINT64_C(1) << 48)       /* added to the event counter: read no more; answers are fewer */

struct stream_decoder {
    struct image_stream *stream;
    struct thread *thread;
    struct image_decoder decoder;
};

/* An image that was read in part. */
struct partial_image {
    char path[PATH_MAX];        /* its first bytes */
    size_t path_bytes;          /* may be more than are in `path` */
    uint8_t length[LENGTH_BYTES];
    uint32_t length_bytes;      /* bytes of the length that were read */
    uint8_t *bytes;             /* NULL: it is skipped */
    size_t byte_count, wanted;  /* bytes that were read, and all bytes */
};

struct image_stream {
    struct image_stream_spec spec;
    struct ring *ring;
    struct queue *received;     /* struct stream_image, from the reader to the decoders */
    int event_fd;               /* counts answered images, and ENDED */
    uint32_t batch;             /* images of a full batch */
    /* Image id is images[id % room]. It belongs to the reader, then to a decoder, which publishes it in its batch, then
     * to main. */
    struct stream_image *images;
    uint64_t room;
    struct thread *reader;
    struct stream_decoder *decoders;
    uint32_t decoder_count;
    /* The members below are used by the reading thread only; `problem` also by main after the join. */
    uint64_t next;              /* id of the next image */
    uint64_t batches;           /* number of batches that ended */
    uint32_t open;              /* images of the batch that has not ended */
    uint64_t answered;          /* images that main has given back */
    uint64_t open_since_ns;
    bool is_stopped;
    bool is_begun, ends_with_nul;       /* the first block was read; names end with NUL only */
    struct partial_image partial;
    char chunk[CHUNK_BYTES];
    char problem[128];
};

/* ---- batches ---- */

/* The batch as it is claimed: full. It ends early by end_batch. */
static struct local_batch batch_numbered(const struct image_stream *stream, uint64_t number)
{
    return (struct local_batch){
        .number = number, .phase = PHASE_EVALUATE, .step = number, .count = stream->batch,
        .global_count = stream->batch, .first_of_phase = number == 0 };
}

static void begin_next_batch(struct image_stream *stream)
{
    stream->batches++;
    stream->open = 0;
}

/* End the batch with the images that it has: count the other places as written. */
static int end_batch(struct image_stream *stream)
{
    const struct local_batch local = batch_numbered(stream, stream->batches);
    const uint32_t count = stream->open;
    struct batch *batch;
    const int rc = ring_claim(stream->ring, &local, &batch);
    if (rc != 0)
        return rc;
    batch->local.count = batch->local.global_count = count;
    begin_next_batch(stream);
    ring_fill(stream->ring, batch, stream->batch - count);
    return 0;
}

/* Has the tower answered all images but those of the batch that has not ended? */
static bool is_idle(const struct image_stream *stream)
{
    return stream->answered + stream->open == stream->next;
}

/* ---- waiting ---- */

static void take_events(struct image_stream *stream)
{
    uint64_t events = 0;
    if (read(stream->event_fd, &events, sizeof(events)) != sizeof(events))
        return;
    stream->answered += events % ENDED;
    stream->is_stopped |= events >= ENDED;
}

/* Wait for an answer, or for input if that is wanted, or until `limit` (NULL: for ever). 1: input can be read; 0: none
 * is there; -ECANCELED: read no more; or another negative errno. */
static int await_event(struct image_stream *stream, bool wants_input, const struct timespec *limit)
{
    struct pollfd fds[] = {
        { .fd = stream->event_fd, .events = POLLIN },
        { .fd = stream->spec.output_fd },
        { .fd = wants_input ? stream->spec.input_fd : -1, .events = POLLIN },
    };
    if (ppoll(fds, sizeof(fds) / sizeof(fds[0]), limit, NULL) < 0)
        return errno == EINTR ? 0 : -errno;
    if (fds[0].revents != 0)
        take_events(stream);
    if (stream->is_stopped || (fds[1].revents & POLLERR) != 0)
        return -ECANCELED;
    return fds[2].revents != 0;
}

static int await_room(struct image_stream *stream)
{
    int rc = 0;
    while (stream->next - stream->answered == stream->room && rc >= 0)
        rc = await_event(stream, false, NULL);
    return rc < 0 ? rc : 0;
}

/* ---- images ---- */

const char *stream_image_name(const struct stream_image *image, char room[32])
{
    if (image->path != NULL)
        return image->path;
    snprintf(room, 32, "-:%" PRIu64, image->id);
    return room;
}

static void release_image(struct stream_image *image)
{
    free(image->path);
    free(image->bytes);
    free(image->problem);
    *image = (struct stream_image){ .path = NULL };
}

/* Hand an image to the decoders, in the next place of a batch. Owns the content of *made, also after a failure. */
static int add_image(struct image_stream *stream, struct stream_image *made)
{
    const uint64_t arrived_ns = clock_now_ns();
    const int rc = await_room(stream);
    if (rc != 0) {
        release_image(made);
        return rc;
    }
    struct stream_image *const image = &stream->images[stream->next % stream->room];
    *image = *made;
    image->id = stream->next++;
    image->batch = stream->batches;
    image->place = stream->open++;
    image->arrived_ns = arrived_ns;
    if (image->place == 0)
        stream->open_since_ns = arrived_ns;
    if (stream->open == stream->batch)
        begin_next_batch(stream);
    return queue_put(stream->received, image);
}

static int add_problem(struct image_stream *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int add_problem(struct image_stream *stream, const char *format, ...)
{
    struct stream_image image = { .path = NULL };
    va_list words;
    va_start(words, format);
    const int bytes = vasprintf(&image.problem, format, words);
    va_end(words);
    return bytes >= 0 ? add_image(stream, &image) : -ENOMEM;
}

static int add_path(struct image_stream *stream)
{
    struct partial_image *const partial = &stream->partial;
    const size_t bytes = partial->path_bytes;
    partial->path_bytes = 0;
    if (bytes == 0)
        return 0;
    const size_t kept = bytes < PATH_MAX ? bytes : PATH_MAX - 1;
    struct stream_image image = { .path = strndup(partial->path, kept) };
    if (image.path == NULL)
        return -ENOMEM;
    if (kept == bytes || asprintf(&image.problem, "is longer than a path can be: %zu bytes", bytes) >= 0)
        return add_image(stream, &image);
    free(image.path);
    return -ENOMEM;
}

/* ---- paths ---- */

static bool ends_path(const struct image_stream *stream, char byte)
{
    return byte == '\0' || (byte == '\n' && !stream->ends_with_nul);
}

bool image_stream_is_image(const char *bytes, size_t count)
{
    return count >= 4 && (memcmp(bytes, "\xff\xd8\xff", 3) == 0 || memcmp(bytes, "\x89PNG", 4) == 0);
}

/* All complete images of a chunk are added before the next wait, so they get into as few batches as possible. */
static int parse_paths(struct image_stream *stream, size_t bytes)
{
    struct partial_image *const partial = &stream->partial;
    int rc = 0;
    if (!stream->is_begun && image_stream_is_image(stream->chunk, bytes)) {
        snprintf(stream->problem, sizeof(stream->problem), IMAGE_STREAM_NO_PATHS);
        return -EBADMSG;
    }
    if (!stream->is_begun)
        stream->ends_with_nul = memchr(stream->chunk, '\0', bytes) != NULL;
    stream->is_begun = true;
    for (size_t i = 0; i < bytes && rc == 0; i++) {
        if (ends_path(stream, stream->chunk[i])) {
            rc = add_path(stream);
            continue;
        }
        if (partial->path_bytes < sizeof(partial->path))
            partial->path[partial->path_bytes] = stream->chunk[i];
        partial->path_bytes++;
    }
    return rc;
}

/* ---- images with lengths ---- */

static uint32_t length_of(const uint8_t bytes[LENGTH_BYTES])
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* The length of an image is complete. */
static int begin_image(struct image_stream *stream)
{
    struct partial_image *const partial = &stream->partial;
    const uint32_t bytes = length_of(partial->length);
    if (bytes >= IMAGE_STREAM_BYTES_ABSURD) {
        snprintf(stream->problem, sizeof(stream->problem), "says that image %" PRIu64 " has %" PRIu32 " bytes: before "
                 "each image its length is expected, 4 bytes, little-endian", stream->next, bytes);
        return -EBADMSG;
    }
    partial->wanted = bytes;
    partial->byte_count = 0;
    partial->bytes = bytes <= IMAGE_STREAM_BYTES_MAX ? malloc((size_t)bytes + 1) : NULL;
    return partial->bytes != NULL || bytes > IMAGE_STREAM_BYTES_MAX ? 0 : -ENOMEM;
}

/* An image is complete. */
static int end_image(struct image_stream *stream)
{
    struct partial_image *const partial = &stream->partial;
    struct stream_image image = { .bytes = partial->bytes, .byte_count = partial->byte_count };
    partial->length_bytes = 0;
    partial->bytes = NULL;
    if (image.bytes != NULL && image.byte_count > 0)
        return add_image(stream, &image);
    free(image.bytes);
    if (partial->wanted == 0)
        return add_problem(stream, "is empty");
    return add_problem(stream, "has %zu bytes: at most %" PRIu32 " are read", partial->wanted, IMAGE_STREAM_BYTES_MAX);
}

/* Take bytes of the image's length, or of the image. Returns their number, or a negative errno. */
static ssize_t take_piece(struct image_stream *stream, const char *chunk, size_t bytes)
{
    struct partial_image *const partial = &stream->partial;
    if (partial->length_bytes < LENGTH_BYTES) {
        partial->length[partial->length_bytes++] = (uint8_t)*chunk;
        const int rc = partial->length_bytes == LENGTH_BYTES ? begin_image(stream) : 0;
        return rc == 0 ? 1 : rc;
    }
    const size_t left = partial->wanted - partial->byte_count, taken = bytes < left ? bytes : left;
    if (partial->bytes != NULL)
        memcpy(partial->bytes + partial->byte_count, chunk, taken);
    partial->byte_count += taken;
    return (ssize_t)taken;
}

static int parse_images(struct image_stream *stream, size_t bytes)
{
    const struct partial_image *const partial = &stream->partial;
    int rc = 0;
    for (size_t at = 0; at < bytes && rc == 0;) {
        const ssize_t taken = take_piece(stream, stream->chunk + at, bytes - at);
        if (taken < 0)
            return (int)taken;
        at += (size_t)taken;
        if (partial->length_bytes == LENGTH_BYTES && partial->byte_count == partial->wanted)
            rc = end_image(stream);
    }
    return rc;
}

/* The input ends inside an image. */
static int end_partial(struct image_stream *stream)
{
    const struct partial_image *const partial = &stream->partial;
    if (!stream->spec.has_lengths)
        return add_path(stream);
    if (partial->length_bytes == 0)
        return 0;
    if (partial->length_bytes < LENGTH_BYTES)
        return add_problem(stream, "is cut: the input ended after %" PRIu32 " of the %u bytes of its length",
                           partial->length_bytes, LENGTH_BYTES);
    return add_problem(stream, "is cut: the input ended after %zu of its %zu bytes", partial->byte_count,
                       partial->wanted);
}

/* ---- the reading thread ---- */

/* How long may the batch that has not ended wait for more images, now that the tower is idle? */
static uint64_t left_ns(const struct image_stream *stream)
{
    const uint64_t due_ns = stream->open_since_ns + stream->spec.latency_ns, now_ns = clock_now_ns();
    return now_ns < due_ns ? due_ns - now_ns : 0;
}

static bool may_end_batch(const struct image_stream *stream)
{
    return stream->open > 0 && is_idle(stream);
}

/* Read what is there and add the images in it. 0, -ENODATA at the end of the input, or another negative errno. */
static int read_chunk(struct image_stream *stream)
{
    const ssize_t bytes = read(stream->spec.input_fd, stream->chunk, sizeof(stream->chunk));
    if (bytes > 0)
        return stream->spec.has_lengths ? parse_images(stream, (size_t)bytes) : parse_paths(stream, (size_t)bytes);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (bytes < 0)
        snprintf(stream->problem, sizeof(stream->problem), "cannot be read: %s", strerror(errno));
    return -ENODATA;
}

static int read_more(struct image_stream *stream)
{
    const bool may_end = may_end_batch(stream);
    const uint64_t wait_ns = may_end ? left_ns(stream) : 0;
    const struct timespec limit = { (time_t)(wait_ns / NS_PER_S), (long)(wait_ns % NS_PER_S) };
    const int rc = await_event(stream, true, may_end ? &limit : NULL);
    if (rc < 0)
        return rc;
    if (rc > 0)
        return read_chunk(stream);
    return may_end_batch(stream) && left_ns(stream) == 0 ? end_batch(stream) : 0;
}

/* The input has ended: so does the last batch. */
static int end_input(struct image_stream *stream)
{
    const int rc = stream->problem[0] == '\0' ? end_partial(stream) : 0;
    return rc == 0 && stream->open > 0 ? end_batch(stream) : rc;
}

static void read_loop(void *arg)
{
    struct image_stream *const stream = arg;
    int rc = 0;
    while (rc == 0)
        rc = read_more(stream);
    if (rc == -ENODATA || rc == -EBADMSG)
        rc = end_input(stream);
    ring_finish(stream->ring, stream->batches);
    queue_finish(stream->received);
    if (rc != 0 && rc != -ECANCELED)
        stop_fail(stream->spec.stop, exit_code_of(rc, EXIT_CODE_INTERNAL), "standard input cannot be read: %s",
                  exit_cause(rc));
}

/* ---- decoding threads ---- */

static int decode(struct stream_decoder *decoder, struct stream_image *image, uint8_t *pixels)
{
    char problem[IMAGE_PROBLEM_BYTES], room[32];
    const int rc =
        image->path != NULL ? image_decoder_file(&decoder->decoder, image->path, image->id, pixels, problem)
                            : image_decoder_bytes(&decoder->decoder, image->bytes, image->byte_count, image->id, pixels,
                                                  problem);
    const char *const name = stream_image_name(image, room);
    image->is_turned = decoder->decoder.is_turned;
    if (rc == 0 && problem[0] != '\0')
        log_message(LOG_RUN, "%s: %s", name, problem);
    if (rc == 0)
        return 0;
    if (rc == -ENOMEM)
        return stop_fail(decoder->stream->spec.stop, EXIT_CODE_MEMORY, "%s: %s", name, problem);
    image->problem = strdup(problem);
    return image->problem != NULL ? 0 : -ENOMEM;
}

static int fill_place(struct stream_decoder *decoder, struct stream_image *image, struct batch *batch)
{
    const size_t sample_bytes = decoder->stream->spec.plan->layout.of[PHASE_EVALUATE].sample_bytes;
    uint8_t *const pixels = batch->pixels + image->place * sample_bytes;
    batch->ids[image->place] = image->id;
    batch->labels[image->place] = BATCH_NO_LABEL;
    const int rc = image->problem == NULL ? decode(decoder, image, pixels) : 0;
    free(image->bytes);
    image->bytes = NULL;
    if (image->problem != NULL)
        memset(pixels, 0, sample_bytes);
    return rc;
}

static int fill_next(struct stream_decoder *decoder)
{
    struct image_stream *const stream = decoder->stream;
    struct batch *batch;
    void *item;
    int rc = queue_get(stream->received, &item);
    if (rc != 0)
        return rc;
    struct stream_image *const image = item;
    const struct local_batch local = batch_numbered(stream, image->batch);
    rc = ring_claim(stream->ring, &local, &batch);
    if (rc == 0)
        rc = fill_place(decoder, image, batch);
    if (rc == 0)
        ring_fill(stream->ring, batch, 1);
    return rc;
}

static void decode_loop(void *arg)
{
    struct stream_decoder *const decoder = arg;
    const struct image_stream_spec *const spec = &decoder->stream->spec;
    if (run_plan_uses_cores(spec->plan))
        thread_lower_priority();
    int rc = image_decoder_open(&decoder->decoder, spec->plan);
    while (rc == 0)
        rc = fill_next(decoder);
    image_decoder_close(&decoder->decoder);
    if (rc != -ENODATA && rc != -ECANCELED)
        stop_fail(spec->stop, exit_code_of(rc, EXIT_CODE_INTERNAL), "images could not be decoded: %s", exit_cause(rc));
}

/* ---- for main ---- */

int image_stream_open(struct image_stream **stream_out, const struct image_stream_spec *spec)
{
    struct image_stream *const stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return -ENOMEM;
    stream->spec = *spec;
    stream->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stream->event_fd < 0) {
        const int rc = -errno;
        free(stream);
        return rc;
    }
    *stream_out = stream;
    return 0;
}

static int allocate(struct image_stream *stream)
{
    const uint32_t decoders = stream->spec.plan->decode_threads;
    stream->batch = stream->spec.plan->schedule.batch;
    stream->room = (uint64_t)stream->spec.batches_most * stream->batch;
    stream->images = calloc(stream->room, sizeof(*stream->images));
    stream->decoders = calloc(decoders, sizeof(*stream->decoders));
    if (stream->images == NULL || stream->decoders == NULL)
        return -ENOMEM;
    return queue_open(&stream->received, (size_t)2 * decoders);
}

static int start_threads(struct image_stream *stream)
{
    int rc = 0;
    for (uint32_t i = 0; i < stream->spec.plan->decode_threads && rc == 0; i++) {
        struct stream_decoder *const decoder = &stream->decoders[i];
        char name[16];
        snprintf(name, sizeof(name), "images%" PRIu32, i % 1000);
        decoder->stream = stream;
        rc = thread_start(&decoder->thread, name, decode_loop, decoder);
        stream->decoder_count += rc == 0;
    }
    return rc == 0 ? thread_start(&stream->reader, "stdin", read_loop, stream) : rc;
}

int image_stream_start(struct image_stream *stream, struct ring *ring)
{
    stream->ring = ring;
    int rc = allocate(stream);
    if (rc == 0)
        rc = start_threads(stream);
    if (rc == 0)
        return 0;
    ring_cancel(ring);
    image_stream_join(stream);
    return rc;
}

static void put_event(struct image_stream *stream, uint64_t event)
{
    const ssize_t written = write(stream->event_fd, &event, sizeof(event));
    (void)written;      /* the counter has room for more than all events */
}

void image_stream_stop(void *stream)
{
    put_event(stream, ENDED);
}

const struct stream_image *image_stream_image(const struct image_stream *stream, uint64_t id)
{
    return &stream->images[id % stream->room];
}

void image_stream_give_back(struct image_stream *stream, uint64_t id, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        release_image(&stream->images[(id + i) % stream->room]);
    put_event(stream, count);
}

void image_stream_join(struct image_stream *stream)
{
    if (stream == NULL)
        return;
    image_stream_stop(stream);
    if (stream->received != NULL)
        queue_cancel(stream->received);
    thread_join(stream->reader);
    for (uint32_t i = 0; i < stream->decoder_count; i++)
        thread_join(stream->decoders[i].thread);
    stream->reader = NULL;
    stream->decoder_count = 0;
}

const char *image_stream_problem(const struct image_stream *stream)
{
    return stream->problem;
}

void image_stream_close(struct image_stream *stream)
{
    if (stream == NULL)
        return;
    image_stream_join(stream);
    for (uint64_t i = 0; stream->images != NULL && i < stream->room; i++)
        release_image(&stream->images[i]);
    queue_close(stream->received);
    close(stream->event_fd);
    free(stream->partial.bytes);
    free(stream->images);
    free(stream->decoders);
    free(stream);
}
