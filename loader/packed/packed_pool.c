/* Who reads compressed shards with which stream. Called by readers and decoders for every read of one, and
 * while shards are opened and closed. */
#include "loader/packed/packed_pool.h"

#include <errno.h>
#include <stdlib.h>

/* More than threads that read at a time: with fewer they wait. Streams that nobody has stay where they are, so
 * that shards read side by side go on. */
#define STREAMS 16u

struct pooled_stream {
    struct packed_stream stream;        /* first */
    bool is_taken;
    uint64_t used;              /* by the clock of the pool, when it was taken last */
};

/* All under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    struct pooled_stream *streams;      /* NULL without shards */
    size_t shards;
    size_t lz4_block_bytes;     /* that all are reserved for */
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

/* Only streams that nobody has can be: others are when a data set is opened while another is read. */
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

int packed_pool_join(size_t lz4_block_bytes)
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

/* One that is taken is its reader's, who reads another file. */
static void forget_locked(struct pooled_stream *stream, const struct packed_file *file)
{
    if (!stream->is_taken && stream->stream.file == file)
        stream->stream.file = NULL;
}

void packed_pool_leave(const struct packed_file *file)
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

/* The free one that stands in the file nearest before the offset, else the one not used for longest; NULL when
 * all are taken. */
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

struct packed_stream *packed_pool_take(struct packed_file *file, uint64_t offset)
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

void packed_pool_give_back(struct packed_stream *stream)
{
    pthread_mutex_lock(&pool.lock);
    ((struct pooled_stream *)stream)->is_taken = false;
    pthread_cond_signal(&pool.given_back);
    pthread_mutex_unlock(&pool.lock);
}
