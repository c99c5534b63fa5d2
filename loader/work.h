/* What readers and decoders of one loader share and hand to each other. Private to the
 * loader. */
#ifndef PIPETRAIN_WORK_H
#define PIPETRAIN_WORK_H

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

struct work_record {
    uint64_t id, offset;        /* offset: order_offset */
    bool is_stored;             /* the frame is in a store */
    struct read_request *request;       /* while it is read: of the run that begins with it */
    struct record_read read;
};

/* A piece of work: a chunk and the bytes of its records. Owned by the reader that took it
 * from the free queue, then by the decoder that took it from the full queue. */
struct work {
    struct chunk chunk;
    struct batch *batch;
    const struct window *window;    /* lent for the chunk; NULL: none */
    struct work_record *records;    /* chunk.count, room for work_plan's chunk_records */
    uint8_t *buffer;                /* frames one after the other */
};

/* Sizes of all that is allocated, from the spec alone. */
struct work_plan {
    uint32_t work_count;
    uint32_t chunk_records;
    size_t buffer_bytes;        /* of one work */
    size_t context_bytes;       /* of one decoder */
    struct order_shape order;   /* of training */
    bool is_stored[PHASE_COUNT]; /* the shards of the data set are kept in memory */
    bool is_windowed;           /* training: windows are */
    size_t store_bytes, window_bytes, damage_bytes, warnings_bytes;
    size_t total_bytes;         /* SIZE_MAX when it cannot be counted */
};

/* Written by its thread only, read by any; on a cache line of its own. */
struct tally {
    _Alignas(64) atomic_uint_fast64_t records;
    atomic_uint_fast64_t bytes, busy_ns, waited_ns;
    atomic_uint_fast64_t cpu_ns;        /* of a reader that has ended */
};

static inline void tally_add(atomic_uint_fast64_t *value, uint64_t more)
{
    atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + more, memory_order_relaxed);
}

struct worker {
    struct tally tally;
    struct loader *loader;
    struct thread *thread;
    struct trace_track *track;  /* NULL: not recorded */
    struct read_batch *batch;   /* readers only; their own */
    /* Decoders only; their own. */
    struct decode_context *contexts[PHASE_COUNT];
    int open_result;            /* of the contexts; constant once the worker is in `opened` */
};

struct loader {
    struct loader_spec spec;
    struct work_plan plan;
    struct image_shape shape;   /* of the samples wanted */
    struct cursor cursor;
    struct queue *free, *full;
    struct queue *opened;       /* decoders that have opened their contexts, or failed to */
    struct work *works;
    atomic_uint lent;           /* works that are not free: with a reader, a decoder, or between them */
    struct worker *readers, *decoders;
    atomic_uint readers_left;   /* the last reader finishes the full queue */
    atomic_bool change_told;    /* that a shard changed while it was read */
    struct shard_store stores[PHASE_COUNT];      /* zeros unless plan.is_stored */
    struct window_store windows;                /* zeros unless plan.is_windowed */
    struct damage damage;                       /* zeros unless spec.skip_corrupt */
    struct decode_warnings warnings;
};

void work_plan_init(struct work_plan *plan, const struct loader_spec *spec);

/* Take a free work, waiting until there is one. 0, or -ECANCELED when the run is over. It is owned
 * until it is handed on or given back. */
int work_take(struct loader *loader, struct work **work_out);
/* From whoever owns it, also when the run is over. */
void work_give_back(struct loader *loader, struct work *work);
/* The batch that a work is of, as a trace names it. */
struct trace_batch work_traced(const struct loader *loader, const struct work *work);
/* The loops of the threads; `worker` is a struct worker. */
void reader_loop(void *worker);
void decoder_loop(void *worker);

#endif
