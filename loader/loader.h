/* The loader: reader threads read the bytes of records, decoder threads write samples into the batches of the rings.
 * When the cursor assigns a chunk (consecutive positions of one local batch), it decides which record is stored at
 * which position of which batch, so the content of a batch does not depend on the numbers of threads and buffers.
 *
 *   cursor_next -> reader: claim the batch, read bytes -> full queue -> decoder: verify, parse, decode, ring_fill */
#ifndef PIPETRAIN_LOADER_H
#define PIPETRAIN_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/damage.h"
#include "loader/dataset.h"
#include "loader/order.h"
#include "stage/library.h"
#include "stage/ring.h"
#include "stage/schedule.h"
#include "stage/stop.h"
#include "stage/trace/trace.h"

#define LOADER_KEEP_NONE ((size_t)1)    /* keep_bytes to keep no data set: smaller than any shard */
#define LOADER_KEEP_ALL SIZE_MAX

struct loader_spec {
    const struct dataset *datasets[PHASE_COUNT];     /* the evaluation data set may be NULL */
    const struct schedule *schedule;
    const struct batch_layout *layout;
    struct ring *const *rings;          /* one per tower of this process */
    struct stop *stop;
    struct trace *trace;                /* has a track for each thread; may be NULL */
    enum shuffle shuffle;               /* order of training; evaluation is in file order */
    const struct order_classes *classes;        /* SHUFFLE_FULL: training uses all classes equally often; NULL: every
                                                 * record once in an epoch */
    size_t block_bytes, window_bytes;   /* SHUFFLE_BLOCK: size of a read, and of the windows of all lanes; 0:
                                         * automatic */
    uint64_t seed;
    const struct augment *augment;      /* NULL: images are only scaled to the network's size */
    uint32_t read_threads, decode_threads;
    uint64_t max_pixels;                /* of an encoded image; 0: the limit of the process (images/image_memory.h) */
    bool gives_way;                     /* lower the threads' priority below that of towers on the same cores
                                         * (thread.h) */
    uint32_t chunk_records;             /* records per chunk; 0: automatic */
    size_t keep_bytes;                  /* the stored shards of data sets up to this size are kept in memory, so that
                                         * later epochs read no files; records are still verified and decoded at every
                                         * use; 0: automatic */
    bool skip_corrupt;                  /* replace damaged records instead of failing */
    struct damage_sink damage_sink;     /* with skip_corrupt: is called once for every damaged record */
    uint64_t corrupt_max;               /* the run fails if more records than this are damaged, each counted once */
    struct problem_relay relay;         /* for processes other than the first of a run */
};

struct loader;

extern const struct library loader_libraries[];

struct loader_counts {
    uint64_t records, bytes;            /* records decoded; bytes read from files */
    uint64_t corrupt_records;           /* damaged records, each counted once, including those lost while indexing */
    uint64_t decoder_warnings;          /* records whose image was decoded with a warning, each counted once */
    uint64_t read_busy_ns, read_waited_room_ns;                     /* summed over readers */
    uint64_t read_cpu_ns;               /* CPU time of readers that have ended */
    uint64_t decode_busy_ns, decode_waited_input_ns, decode_cpu_ns; /* the same for decoders */
};

/* The host memory that the loader will allocate. SIZE_MAX if it overflows. */
struct loader_memory {
    size_t bytes;
    size_t kept_bytes;                  /* part of `bytes`: shards kept in memory */
    size_t window_spare_bytes;          /* part of `bytes` that a smaller window_bytes could save */
    bool takes_large;                   /* large images need additional memory (images/image_memory.h) */
    bool is_read;                       /* training records are read from files in every epoch */
};
struct loader_memory loader_memory(const struct loader_spec *spec);
/* The order of training. */
struct order_shape loader_order(const struct loader_spec *spec);
/* How many bytes of the training set's shards this process reads once and keeps in memory; 0: it keeps none.
 * UINT64_MAX if memory to find it is short. */
uint64_t loader_kept_file_bytes(const struct loader_spec *spec);
/* About how many bytes of shards this process reads for an epoch of training, if it does not keep them. */
uint64_t loader_epoch_bytes(const struct loader_spec *spec);
/* Check, as loader_start does, that at most corrupt_max records were lost while the shards were indexed. 0, -ENOMEM, or
 * -ECANCELED after a report to the stop. */
int loader_check(const struct loader_spec *spec);
/* Allocate memory, limit the rings to the schedule's batches and start all threads. All that the spec points to must
 * stay valid until loader_close. If the run fails, the threads end and the waits in the rings return. 0, or a negative
 * errno with no thread running; -ECANCELED after a report to the stop. */
int loader_start(struct loader **loader_out, const struct loader_spec *spec);
/* Wait for the threads. They end after the schedule's last batch, when the run fails, or after loader_end. Accepts
 * NULL. */
void loader_join(struct loader *loader, struct loader_counts *counts_out /* may be NULL */);
/* To be called after loader_join; other threads may still call stop_fail. Asserts that all chunk buffers were given
 * back. Accepts NULL. */
void loader_close(struct loader *loader);
/* End the run early, without an error: threads end, and all waits return, also those in the rings. Any thread. A closer
 * for stop_on_failure. */
void loader_end(void *loader);
/* The counts so far. Any thread. */
void loader_count(struct loader *loader, struct loader_counts *counts_out);
/* Count and report a problem that another process found, as if this process had found it. The run may fail because of
 * it. Any thread, until loader_take_damage. */
void loader_add_problem(struct loader *loader, const struct found_problem *found);
/* The list of damaged records, including those lost while indexing. The caller frees it; paths belong to the data sets.
 * NULL without skip_corrupt. To be called after loader_join. */
struct damage_list *loader_take_damage(struct loader *loader);

#endif
