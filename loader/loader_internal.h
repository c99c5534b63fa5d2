/* The loader's own structs, and the chunk buffers that its threads pass to each other. Private to loader.c, reader.c
 * and decoder.c. */
#ifndef PIPETRAIN_LOADER_INTERNAL_H
#define PIPETRAIN_LOADER_INTERNAL_H

#include <stdatomic.h>

#include "loader/cursor.h"
#include "loader/damage.h"
#include "loader/loader.h"
#include "loader/record.h"
#include "loader/shard_store.h"
#include "loader/shards/read_batch.h"
#include "loader/window_store.h"
#include "stage/queue.h"
#include "stage/thread.h"

struct chunk_record {
    uint64_t id, offset;        /* offset: order_offset */
    bool is_stored;             /* the frame is in a shard store or window */
    struct read_request *request;       /* the read of the consecutive records that begin here, while it is in
                                         * progress */
    struct record_read read;
};

/* A chunk and the bytes of its records. It belongs to the reader that took it from the free queue, then to the decoder
 * that took it from the full queue. */
struct chunk_buffer {
    struct chunk chunk;
    struct batch *batch;
    const struct window *window;    /* borrowed from the window store for this chunk, or NULL */
    struct chunk_record *records;   /* chunk.count records, with room for loader_sizes.chunk_records */
    uint8_t *frames;                /* the frames, one after another */
};

/* The sizes of all allocations; a function of the spec. */
struct loader_sizes {
    uint32_t buffer_count;
    uint32_t chunk_records;
    size_t buffer_bytes;        /* size of the frames of one chunk buffer */
    size_t context_bytes;       /* size of one decoder's contexts */
    struct order_shape order;   /* shape of the training order */
    bool is_stored[PHASE_COUNT]; /* the data set's shards are kept in memory */
    bool is_windowed;           /* training reads windows of blocks */
    size_t store_bytes, window_bytes, damage_bytes, warnings_bytes;
    size_t total_bytes;         /* SIZE_MAX if it overflows */
};

/* Written by one thread, read by any. Aligned to a cache line of its own. */
struct thread_counters {
    _Alignas(64) atomic_uint_fast64_t records;
    atomic_uint_fast64_t bytes, busy_ns, waited_ns;
    atomic_uint_fast64_t cpu_ns;        /* set when the thread ends */
};

static inline void counter_add(atomic_uint_fast64_t *value, uint64_t more)
{
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + more, memory_order_relaxed);
}

/* A reader or a decoder. */
struct loader_thread {
    struct thread_counters counters;
    struct loader *loader;
    struct thread *thread;
    struct trace_track *track;  /* NULL: no trace */
    struct read_batch *batch;   /* readers only */
    struct decode_context *contexts[PHASE_COUNT];        /* decoders only */
    int open_result;            /* decoders: result of opening the contexts; constant once the thread is in `opened` */
};

struct loader {
    struct loader_spec spec;
    struct loader_sizes sizes;
    struct cursor cursor;
    struct queue *free, *full;  /* queues of chunk buffers */
    struct queue *opened;       /* queue of decoders that have opened their contexts or failed to */
    struct chunk_buffer *buffers;
    atomic_uint lent;           /* chunk buffers that are not in the free queue */
    struct loader_thread *readers, *decoders;
    atomic_uint readers_left;   /* readers still running; the last one finishes the full queue */
    atomic_bool change_reported;        /* a shard changed while it was being read, and this was reported */
    struct shard_store stores[PHASE_COUNT];      /* zeros unless sizes.is_stored */
    struct window_store windows;                /* zeros unless sizes.is_windowed */
    struct damage damage;                       /* zeros unless spec.skip_corrupt */
    struct decode_warnings warnings;
};

/* Take a free chunk buffer, waiting for one. 0, or -ECANCELED when the run is over. The caller owns the buffer until it
 * passes it on or gives it back. */
static inline int chunk_buffer_take(struct loader *loader, struct chunk_buffer **buffer_out)
{
    void *buffer;
    const int rc = queue_get(loader->free, &buffer);
    if (rc < 0)
        return rc;
    atomic_fetch_add(&loader->lent, 1);
    *buffer_out = buffer;
    return 0;
}

/* To be called by the owner, even when the run is over. */
static inline void chunk_buffer_give_back(struct loader *loader, struct chunk_buffer *buffer)
{
    atomic_fetch_sub(&loader->lent, 1);
    (void)queue_put(loader->free, buffer);      /* fails if the queue was cancelled; then no thread needs the buffer */
}

/* The batch of a chunk buffer, for entries of a trace. */
static inline struct trace_batch chunk_buffer_traced(const struct loader *loader, const struct chunk_buffer *buffer)
{
    const struct chunk *const chunk = &buffer->chunk;
    return (struct trace_batch){ chunk->local.number, schedule_here(loader->spec.schedule).first + chunk->tower };
}

/* The main functions of the threads; `thread` is a struct loader_thread. */
void reader_loop(void *thread);
void decoder_loop(void *thread);

#endif
