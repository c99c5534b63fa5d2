/* The loader: reader threads bring records' bytes, decoder threads write samples in
 * place into the rings' batches. Which record goes to which place of which batch is
 * decided where work is handed out (a chunk of consecutive places of one slice), so
 * thread counts and depths never change what a batch holds.
 *
 *   cursor (next chunk) -> reader: claim batch, read bytes -> work queue -> decoder: verify,
 *   parse, write in place, ring_fill */
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
    struct trace *trace;                /* gets a track for each thread; NULL: nothing is recorded */
    enum shuffle shuffle;               /* of training; evaluation is in file order */
    size_t block_bytes, window_bytes;   /* of SHUFFLE_BLOCK: what is read at a time, what is mixed; 0 = chosen */
    uint64_t seed;
    const struct augment *augment;      /* NULL: images are changed only where they have to be to fit */
    uint32_t read_threads, decode_threads;
    bool gives_way;                     /* its threads do, to towers that compute on the same cores (thread.h) */
    uint32_t chunk_records;             /* records per piece of work, 0 = chosen */
    size_t keep_bytes;                  /* data sets whose shards are no larger are kept in memory as read, so that
                                         * later epochs read no file; verified and decoded at every use; 0 = chosen */
    bool skip_corrupt;                  /* replace damaged records instead of failing */
    struct damage_sink damage_sink;     /* with skip_corrupt: gets every distinct damaged record as it is met */
    uint64_t corrupt_max;               /* fail when more records than this were damaged (per run, distinct) */
};

struct loader;

extern const struct library loader_libraries[];

struct loader_counts {
    uint64_t records, bytes;            /* delivered; read from files */
    uint64_t corrupt_records;           /* distinct damaged records met, those lost while indexing included */
    uint64_t decoder_warnings;          /* distinct records whose image was decoded with a warning */
    uint64_t read_busy_ns, read_waited_room_ns;                     /* summed over readers */
    uint64_t read_cpu_ns;               /* that they computed, of those that have ended */
    uint64_t decode_busy_ns, decode_waited_input_ns, decode_cpu_ns; /* summed over decoders, as readers */
};

/* Host memory the loader will allocate, for the plan; SIZE_MAX where it cannot be counted. */
struct loader_memory {
    size_t bytes;
    size_t kept_bytes;                  /* of these, for shards kept as read */
    size_t window_spare_bytes;          /* of these, for all but the first block of windows: a smaller window_bytes
                                         * saves them */
    bool takes_large;                   /* decoders share memory for large images besides (images/image_memory.h) */
    bool is_read;                       /* training records come from files in every epoch */
};
struct loader_memory loader_memory(const struct loader_spec *spec);
/* The order of training, as the data set and the spec make it. */
struct order_shape loader_order(const struct loader_spec *spec);
/* Whether what the data sets lost while they were indexed is no more than corrupt_max: what loader_start
 * refuses at once. 0, -ENOMEM, or -ECANCELED when the stop has been told why. */
int loader_check(const struct loader_spec *spec);
/* Allocate, limit the rings to the schedule's batches and start all threads. Everything in
 * the spec is lent until loader_close. A stop that fails ends the loader and the rings' waits. 0, or a
 * negative errno with nothing running; -ECANCELED when the stop has been told why. */
int loader_start(struct loader **loader_out, const struct loader_spec *spec);
/* The threads end when every batch of the schedule is published or the run failed, or
 * after loader_end. Accepts NULL. */
void loader_join(struct loader *loader, struct loader_counts *counts_out /* may be NULL */);
/* Release what loader_start gave. After join; other threads may still fail the stop. Every piece
 * of work came back (asserted). Accepts NULL. */
void loader_close(struct loader *loader);
/* The run stops early, without an error: threads end, waits end, the rings' too. Any thread.
 * Fits stop_on_failure. */
void loader_end(void *loader);
/* A snapshot. Any thread. */
void loader_count(struct loader *loader, struct loader_counts *counts_out);
/* The damaged records that were met, those lost while indexing included, of which the caller becomes the
 * owner (free); their paths stay the data sets'. NULL without skip_corrupt. After join. */
struct damage_list *loader_take_damage(struct loader *loader);

#endif
