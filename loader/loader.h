/* The loader: reader threads read the bytes of records, decoder threads write samples in place into the rings' batches.
 * The cursor decides which record goes to which place of which batch when it hands out a chunk (consecutive places of
 * one local batch), so the numbers of threads and buffers never change the content of a batch.
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

#define LOADER_KEEP_NONE ((size_t)1)    /* no shard is that small */
#define LOADER_KEEP_ALL SIZE_MAX

struct loader_spec {
    const struct dataset *datasets[PHASE_COUNT];     /* evaluation may be NULL */
    const struct schedule *schedule;
    const struct batch_layout *layout;
    struct ring *const *rings;          /* one for each tower of this process */
    struct stop *stop;
    struct trace *trace;                /* gets a track for each thread; may be NULL */
    enum shuffle shuffle;               /* of training; evaluation is in file order */
    size_t block_bytes, window_bytes;   /* SHUFFLE_BLOCK: size of a read, and of what is mixed; 0: chosen */
    uint64_t seed;
    const struct augment *augment;      /* NULL: images are only scaled to the network's size */
    uint32_t read_threads, decode_threads;
    bool gives_way;                     /* lower the threads' priority below towers on the same cores (thread.h) */
    uint32_t chunk_records;             /* records of a chunk; 0: chosen */
    size_t keep_bytes;                  /* shards of data sets up to this size are kept in memory as stored, so that
                                         * later epochs read no file; records are still verified and decoded at
                                         * every use; 0: chosen */
    bool skip_corrupt;                  /* replace damaged records instead of failing */
    struct damage_sink damage_sink;     /* with skip_corrupt: receives every damaged record once */
    uint64_t corrupt_max;               /* fail if more different records than this are damaged */
    struct problem_relay relay;         /* of a process that is not the first of its run */
};

struct loader;

extern const struct library loader_libraries[];

struct loader_counts {
    uint64_t records, bytes;            /* decoded; read from files */
    uint64_t corrupt_records;           /* different damaged records, including those lost while indexing */
    uint64_t decoder_warnings;          /* different records whose image was decoded with a warning */
    uint64_t read_busy_ns, read_waited_room_ns;                     /* summed over readers */
    uint64_t read_cpu_ns;               /* CPU time of readers that have ended */
    uint64_t decode_busy_ns, decode_waited_input_ns, decode_cpu_ns; /* likewise for decoders */
};

/* Host memory that the loader will allocate, for the plan. SIZE_MAX if it overflows. */
struct loader_memory {
    size_t bytes;
    size_t kept_bytes;                  /* part of it: shards kept in memory */
    size_t window_spare_bytes;          /* part of it that a smaller window_bytes could save */
    bool takes_large;                   /* large images need more (images/image_memory.h) */
    bool is_read;                       /* training records come from files in every epoch */
};
struct loader_memory loader_memory(const struct loader_spec *spec);
/* The order of training. */
struct order_shape loader_order(const struct loader_spec *spec);
/* Check that no more than corrupt_max records were lost while the shards were indexed, as loader_start does. 0,
 * -ENOMEM, or -ECANCELED after a report to the stop. */
int loader_check(const struct loader_spec *spec);
/* Allocate, limit the rings to the schedule's batches and start all threads. Everything in the spec must stay valid
 * until loader_close. If the stop fails, the threads end and the rings' waits return. 0, or a negative errno with
 * nothing running; -ECANCELED after a report to the stop. */
int loader_start(struct loader **loader_out, const struct loader_spec *spec);
/* Wait for the threads, which end after the schedule's last batch, when the run fails, or after loader_end. Accepts
 * NULL. */
void loader_join(struct loader *loader, struct loader_counts *counts_out /* may be NULL */);
/* Call after loader_join; other threads may still fail the stop. Asserts that all chunk buffers came back. Accepts
 * NULL. */
void loader_close(struct loader *loader);
/* End the run early, without an error: threads end, and all waits return, also those of the rings. Any thread. Has the
 * signature for stop_on_failure. */
void loader_end(void *loader);
/* The counts so far. Any thread. */
void loader_count(struct loader *loader, struct loader_counts *counts_out);
/* Count and report a problem that another process found and its relay passed on, as if it had been found here. The run
 * may fail by it. Any thread, until loader_take_damage. */
void loader_add_problem(struct loader *loader, const struct found_problem *found);
/* The list of damaged records, including those lost while indexing, which the caller frees; paths belong to the data
 * sets. NULL without skip_corrupt. Call after loader_join. */
struct damage_list *loader_take_damage(struct loader *loader);

#endif
