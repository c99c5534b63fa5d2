/* Compressed shards as shard sources. Opened by shard_source_open; readers and decoders read them. */
#include "loader/shards/packed_shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/tfrecord.h"
#include "loader/shards/packed_stream.h"
#include "stage/log.h"

/* If the beginning of a file is not recognised, a unit is searched for in this many bytes. */
#define HEAD_BYTES ((size_t)64 << 10)

/* Data that is decompressed only to reach the wanted records is reported if it exceeds all of these: a total, an amount
 * per read, and a multiple of the data read. */
#define DETOURS_REPORTED_BYTES ((uint64_t)1 << 30)
#define DETOUR_REPORTED_BYTES ((uint64_t)512 << 10)
#define DETOURS_REPORTED_RATIO 8u

/* Appended to a message if decompression could only resume at the next unit and there is none. */
#define ALL_LOST "; all records after it are lost: get the file again, or compress it in short units " \
                 "(pipetrain-convert tfrecord --compress=lz4)"

/* ---- the pool of streams ---- */

/* The process has a fixed number of streams, however many shards are open, so that memory is bounded and reading
 * allocates nothing. A thread takes a stream for a read and holds no lock while it decompresses, so several threads may
 * read one shard. STREAMS is more than the usual number of threads that read at a time; further threads wait. Free
 * streams keep their positions, so that reads of several shards in turn continue where the previous ones ended. */
#define STREAMS 16u

struct pooled_stream {
    struct packed_stream stream;        /* first */
    bool is_taken;
    uint64_t used;              /* value of pool.clock when the stream was last taken */
};

/* The lock protects all fields, and the streams that are not taken. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    struct pooled_stream *streams;      /* NULL while no shard is open */
    size_t shards;
    size_t lz4_block_bytes;     /* LZ4 block size for which every stream has memory */
    uint64_t clock;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .given_back = PTHREAD_COND_INITIALIZER };

static void release_streams_locked(void)
{
    for (size_t i = 0; i < STREAMS; i++)
        packed_stream_release(&pool.streams[i].stream);
    free(pool.streams);
    pool.streams = NULL;
    pool.lz4_block_bytes = 0;
}

static int make_streams_locked(void)
{
    int rc = 0;
    pool.streams = calloc(STREAMS, sizeof(*pool.streams));
    if (pool.streams == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < STREAMS && rc == 0; i++)
        rc = packed_stream_init(&pool.streams[i].stream);
    if (rc < 0)
        release_streams_locked();
    return rc;
}

/* Reserve memory for LZ4 blocks. Only free streams are changed; others may be in use if a data set is opened while
 * another one is read. */
static void reserve_locked(size_t lz4_block_bytes)
{
    if (lz4_block_bytes <= pool.lz4_block_bytes)
        return;
    pool.lz4_block_bytes = lz4_block_bytes;
    for (size_t i = 0; i < STREAMS; i++) {
        struct pooled_stream *const stream = &pool.streams[i];
        if (stream->is_taken)
            continue;
        unpacker_reserve_lz4(&stream->stream.unpacker, lz4_block_bytes);
        stream->stream.file = NULL;
    }
}

/* Register a shard that is opened, with its LZ4 block size (or 0). The first shard creates the streams. 0 or
 * -ENOMEM. */
static int packed_pool_join(size_t lz4_block_bytes)
{
    pthread_mutex_lock(&pool.lock);
    const int rc = pool.streams == NULL ? make_streams_locked() : 0;
    if (rc == 0) {
        pool.shards++;
        reserve_locked(lz4_block_bytes);
    }
    pthread_mutex_unlock(&pool.lock);
    return rc;
}

/* Detach a stream from a file, unless it is taken: a taken stream reads another file. */
static void forget_locked(struct pooled_stream *stream, const struct packed_file *file)
{
    if (!stream->is_taken && stream->stream.file == file)
        stream->stream.file = NULL;
}

/* Unregister a shard that is closed and that no thread reads. The last shard releases the streams. */
static void packed_pool_leave(const struct packed_file *file)
{
    pthread_mutex_lock(&pool.lock);
    for (size_t i = 0; i < STREAMS; i++)
        forget_locked(&pool.streams[i], file);
    if (--pool.shards == 0)
        release_streams_locked();
    pthread_mutex_unlock(&pool.lock);
}

size_t packed_pool_bytes(void)
{
    pthread_mutex_lock(&pool.lock);
    const size_t each = sizeof(struct pooled_stream) - sizeof(struct unpacker) + unpacker_bytes(pool.lz4_block_bytes);
    const size_t bytes = pool.streams != NULL ? STREAMS * each : 0;
    pthread_mutex_unlock(&pool.lock);
    return bytes;
}

/* The free stream with the nearest position before the offset, or else the least recently used one; NULL if all are
 * taken. */
static struct pooled_stream *find_locked(const struct packed_file *file, uint64_t offset)
{
    struct pooled_stream *nearest = NULL, *oldest = NULL;
    for (size_t i = 0; i < STREAMS; i++) {
        struct pooled_stream *const one = &pool.streams[i];
        if (one->is_taken)
            continue;
        const bool is_before = one->stream.file == file && one->stream.out_offset <= offset;
        if (is_before && (nearest == NULL || one->stream.out_offset > nearest->stream.out_offset))
            nearest = one;
        if (oldest == NULL || one->used < oldest->used)
            oldest = one;
    }
    return nearest != NULL ? nearest : oldest;
}

/* Take a stream, waiting for a free one, and move it to the nearest point before `offset`. */
static struct packed_stream *packed_pool_take(struct packed_file *file, uint64_t offset)
{
    struct pooled_stream *found;
    pthread_mutex_lock(&pool.lock);
    while ((found = find_locked(file, offset)) == NULL)
        pthread_cond_wait(&pool.given_back, &pool.lock);
    found->is_taken = true;
    found->used = ++pool.clock;
    pthread_mutex_unlock(&pool.lock);
    packed_stream_seat(&found->stream, file, offset);
    return &found->stream;
}

static void packed_pool_give_back(struct packed_stream *stream)
{
    pthread_mutex_lock(&pool.lock);
    ((struct pooled_stream *)stream)->is_taken = false;
    pthread_cond_signal(&pool.given_back);
    pthread_mutex_unlock(&pool.lock);
}

/* ---- sources ---- */

struct packed_shard {
    struct shard_source source; /* first */
    struct packed_file file;
};

static struct packed_file *file_of(struct shard_source *source)
{
    return &((struct packed_shard *)source)->file;
}

static int packed_open(struct shard_source **source_out, const char *path)
{
    struct shard_source *kept;
    const int rc = shard_file_ops.open(&kept, path);
    return rc < 0 ? rc : packed_shard_wrap(source_out, kept);
}

static void packed_close(struct shard_source *source)
{
    struct packed_file *const file = file_of(source);
    packed_pool_leave(file);
    packed_map_release(&file->map);
    shard_source_close(file->kept);
    free(source);
}

static ssize_t read_on(struct packed_stream *stream, uint8_t *buffer, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    ssize_t got = 1;
    while (done < bytes && got > 0) {
        got = packed_stream_read(stream, buffer + done, bytes - done, offset + done);
        done += got > 0 ? (size_t)got : 0;
    }
    return done > 0 ? (ssize_t)done : got;
}

/* Report, once per process, that random reads in long units are expensive. */
static void count_detour(const struct shard_source *source, uint64_t detour, uint64_t given)
{
    static atomic_ullong detours, all_detour, all_given;
    static atomic_bool is_reported;
    if (detour == 0)
        return;
    const uint64_t count = atomic_fetch_add(&detours, 1) + 1;
    const uint64_t sum = atomic_fetch_add(&all_detour, detour) + detour;
    const uint64_t read = atomic_fetch_add(&all_given, given) + given;
    if (sum < DETOURS_REPORTED_BYTES || sum / count < DETOUR_REPORTED_BYTES || sum / DETOURS_REPORTED_RATIO < read ||
        atomic_exchange(&is_reported, true))
        return;
    log_message(LOG_RUN,
                "%s: reading in this order decompresses %" PRIu64 " times the data that it uses: use data.shuffle "
                "= block, shards of short LZ4 frames or gzip members, or input.source = cached",
                source->path, sum / (read + 1));
}

static ssize_t read_one(struct packed_file *file, void *buffer, size_t bytes, uint64_t offset, uint64_t *detour_out)
{
    struct packed_stream *const stream = packed_pool_take(file, offset);
    *detour_out = stream->detour_bytes;
    const ssize_t got = read_on(stream, buffer, bytes, offset);
    packed_pool_give_back(stream);
    return got;
}

static ssize_t packed_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    uint64_t detour;
    const ssize_t got = read_one(file_of(source), buffer, bytes, offset, &detour);
    count_detour(source, detour, got > 0 ? (uint64_t)got : 0);
    return got;
}

/* Read from the last point before the offset, without buffered data. */
static ssize_t packed_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    struct packed_stream *const stream = packed_pool_take(file_of(source), offset);
    packed_stream_seat_afresh(stream, file_of(source), offset);
    const ssize_t got = read_on(stream, buffer, bytes, offset);
    packed_stream_leave(stream);
    packed_pool_give_back(stream);
    return got;
}

/* Return the size of the stream, reading to its end if the size is not yet known. */
static int packed_size(struct shard_source *source, uint64_t *bytes_out)
{
    struct packed_file *const file = file_of(source);
    uint8_t beyond;
    uint64_t detour;
    ssize_t got = 0;
    if (packed_map_end(&file->map) == PACKED_NOWHERE)
        got = read_one(file, &beyond, 1, PACKED_NOWHERE - 1, &detour);
    *bytes_out = packed_map_end(&file->map);
    return (int)got;
}

static int packed_stamp(const struct shard_source *source, struct shard_stamp *stamp_out)
{
    const struct shard_source *const kept = ((const struct packed_shard *)source)->file.kept;
    return kept->ops->stamp(kept, stamp_out);
}

/* Describe bytes after the compressed data, which were added by a download or another program. */
static void foreign_text(const struct packed_file *file, const struct packed_break *found, char *text, size_t text_size)
{
    const char *const name = container_name(file->container);
    const bool is_one = found->foreign_bytes == 1;
    snprintf(text, text_size,
             "the %s data end at compressed byte %" PRIu64 ", and %" PRIu64 " byte%s after them %s not %s: cut %s off, "
             "or get the file again if records are missing",
             name, found->foreign_from, found->foreign_bytes, is_one ? "" : "s",
             is_one ? "is" : "are", name, is_one ? "it" : "them");
}

static uint64_t packed_find_break(struct shard_source *source, uint64_t offset, char *text, size_t text_size)
{
    struct packed_file *const file = file_of(source);
    struct packed_break found;
    if (!packed_map_next_break(&file->map, offset, &found))
        return UINT64_MAX;
    if (found.foreign_bytes > 0)
        foreign_text(file, &found, text, text_size);
    else
        snprintf(text, text_size,
                 "the %s data are damaged near compressed byte %" PRIu64 ", after byte %" PRIu64 ": %s%s",
                 container_name(file->container), found.in, found.out, found.problem,
                 found.next == PACKED_NOWHERE ? ALL_LOST : "");
    return found.out;
}

static uint64_t packed_break_begin(struct shard_source *source, uint64_t offset)
{
    struct packed_break found;
    return packed_map_next_break(&file_of(source)->map, offset, &found) ? found.unit_out : UINT64_MAX;
}

static int make_shard(struct shard_source **source_out, struct shard_source *kept, enum container container,
                      size_t lz4_block_bytes)
{
    struct packed_shard *const shard = calloc(1, sizeof(*shard));
    if (shard == NULL)
        return -ENOMEM;
    shard->source = *kept;
    shard->source.ops = &shard_packed_ops;
    shard->file.kept = kept;
    shard->file.container = container;
    int rc = packed_map_init(&shard->file.map, kept->stamp.bytes, container != CONTAINER_LZ4);
    if (rc == 0) {
        rc = packed_pool_join(lz4_block_bytes);
        if (rc < 0)
            packed_map_release(&shard->file.map);
    }
    if (rc < 0) {
        free(shard);
        return rc;
    }
    shard->source.held_bytes += packed_map_bytes(&shard->file.map);
    *source_out = &shard->source;
    return 0;
}

/* The kind of a file, judged by its first bytes. */
struct guess {
    enum container container;
    size_t lz4_block_bytes;     /* 0 if it is not LZ4 */
    bool is_sure;               /* false: has to be confirmed by a valid record header at offset `record` of the
                                 * stream */
    uint64_t record;
};

/* Find a second unit in a file whose beginning is damaged. */
static size_t find_later_unit(const uint8_t *head, size_t bytes, enum container *container_out)
{
    for (size_t at = 1; at + CONTAINER_MAGIC_BYTES <= bytes; at++) {
        const bool is_gzip = container_may_begin(CONTAINER_GZIP, head + at);
        *container_out = is_gzip ? CONTAINER_GZIP : CONTAINER_LZ4;
        if (is_gzip || container_may_begin(CONTAINER_LZ4, head + at))
            return at;
    }
    *container_out = CONTAINER_PLAIN;
    return 0;
}

static bool is_header(const uint8_t *head, size_t bytes)
{
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    return bytes >= TFRECORD_HEADER_BYTES && tfrecord_header(head, &payload_bytes, &problem) != TFRECORD_LENGTH_CRC;
}

/* Guess the container. The two bytes of zlib's header are no proof, since damaged plain shards may begin with them. */
static void guess_container(const uint8_t *head, size_t bytes, struct guess *guess)
{
    size_t unit = 0;
    guess->container = container_find(head, bytes < CONTAINER_HEAD_BYTES ? bytes : CONTAINER_HEAD_BYTES);
    guess->is_sure = guess->container == CONTAINER_GZIP || guess->container == CONTAINER_LZ4;
    guess->record = 0;
    if (guess->container == CONTAINER_PLAIN && !is_header(head, bytes)) {
        unit = find_later_unit(head, bytes, &guess->container);
        guess->record = 1;
    }
    guess->lz4_block_bytes =
        guess->container == CONTAINER_LZ4 ? unpacker_lz4_block_bytes(head + unit, bytes - unit) : 0;
}

static bool is_right(const struct guess *guess, struct shard_source *source)
{
    uint8_t head[TFRECORD_HEADER_BYTES];
    const ssize_t got = guess->is_sure ? 0 : shard_source_read(source, head, sizeof(head), guess->record);
    return guess->is_sure || (got > 0 && is_header(head, (size_t)got));
}

static int wrap(struct shard_source **source_out, struct shard_source *kept, const struct guess *guess)
{
    *source_out = kept;
    if (guess->container == CONTAINER_PLAIN)
        return 0;
    const int rc = make_shard(source_out, kept, guess->container, guess->lz4_block_bytes);
    if (rc < 0 || is_right(guess, *source_out))
        return rc;
    file_of(*source_out)->kept = NULL;
    shard_source_close(*source_out);
    *source_out = kept;
    return 0;
}

/* Read the beginning of a file and choose its source. A few bytes are enough for most files; for others HEAD_BYTES are
 * read. */
static int look_and_wrap(struct shard_source **source_out, struct shard_source *kept, uint8_t *head)
{
    struct guess guess = { .container = CONTAINER_PLAIN };
    ssize_t got = shard_source_read(kept, head, CONTAINER_HEAD_BYTES, 0);
    if (got > 0 && !is_header(head, (size_t)got)) {
        got = shard_source_read(kept, head, HEAD_BYTES, 0);
        guess_container(head, got > 0 ? (size_t)got : 0, &guess);
    }
    return wrap(source_out, kept, &guess);
}

int packed_shard_wrap(struct shard_source **source_out, struct shard_source *kept)
{
    uint8_t *const head = malloc(HEAD_BYTES);
    const int rc = head != NULL ? look_and_wrap(source_out, kept, head) : -ENOMEM;
    if (rc < 0)
        shard_source_close(kept);
    free(head);
    return rc;
}

const struct shard_source_ops shard_packed_ops = {
    .open = packed_open,
    .close = packed_close,
    .size = packed_size,
    .read = packed_read,
    .read_afresh = packed_read_afresh,
    .stamp = packed_stamp,
    .find_break = packed_find_break,
    .break_begin = packed_break_begin,
};
