/* The memory that a run needs, by purpose and by device or host, summed up and checked before anything large is
 * allocated. Used by main only. */
#ifndef PIPETRAIN_MEMORY_NEEDS_H
#define PIPETRAIN_MEMORY_NEEDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "loader/dataset.h"
#include "stage/device.h"
#include "sync/trainer.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_devices.h"

/* A large block is aligned to huge pages, so up to one more huge page of the address space is unused before it. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

enum memory_purpose {
    MEMORY_BATCHES,             /* in the rings on the host, and the outputs of an evaluation */
    MEMORY_LOADER,
    MEMORY_IMAGES,              /* for decoding large images, in all decoders together */
    MEMORY_SLOTS,
    MEMORY_ARENAS,
    MEMORY_VALUES,
    MEMORY_WORKSPACE,
    MEMORY_WEIGHT_COPIES,
    MEMORY_SNAPSHOTS,
    MEMORY_REDUCTION,
    MEMORY_RESULTS,             /* for saving the weights */
    MEMORY_TRACE,
    MEMORY_PURPOSE_COUNT
};

struct run_plan;

/* The needs in one memory, by purpose; SIZE_MAX: more than a size_t can represent. */
struct memory_share { size_t bytes[MEMORY_PURPOSE_COUNT]; };

/* The needs of all towers of this process. */
struct memory_needs {
    struct memory_share host;
    struct memory_share devices[DEVICES_MAX];
    uint32_t device_count;              /* 0 if towers use the host's memory */
    const struct run_devices *names;    /* of the devices; lent */
    size_t kept_bytes;                  /* bytes of MEMORY_LOADER for shards that are kept in memory */
    size_t window_spare_bytes;          /* bytes of MEMORY_LOADER that smaller windows would save */
    uint32_t samples;                   /* samples of these towers in a full training step; 0: towers are not planned
                                         * yet */
    size_t aside;                       /* more address space on the host: stacks, alignment, libraries */
    size_t touched;                     /* the part of `aside` that is written to */
};

/* The memory_share to which memory of device `device` (of the devices in use) is added. */
struct memory_share *memory_needs_on(struct memory_needs *memory, uint32_t device);
void memory_share_add(struct memory_share *share, enum memory_purpose purpose, size_t bytes);
/* Add the needs of a tower on that device. */
void memory_needs_add_tower(struct memory_needs *memory, uint32_t device, const struct trainer_needs *needs);
/* The sum over all memories. */
size_t memory_needs_bytes(const struct memory_needs *memory);

/* The memory that is available. */
struct memory_there {
    size_t host, devices[DEVICES_MAX];
    const char *host_says;              /* for a message: what limits the host's memory; NULL: "available are" */
    size_t margin;                      /* host memory to keep free, because the plan of another batch may need more */
};

/* Set the host's part: the least of the machine's memory, the limits of control groups (of both, the share of each rank
 * on this host) and the limit of the process; minus memory that has no purpose here. */
void memory_host_there(const struct memory_needs *memory, const struct settings *settings,
                       struct memory_there *there_out);
/* Limit the memory for decoding images to the budget and to the available memory. For opening data sets, before there
 * is a plan. */
void memory_bound_images(const struct settings *settings);
/* Images may be large: add the memory for decoding large ones, which the decoders share, as input.max_pixels limits
 * it. */
void memory_needs_add_images(struct memory_needs *memory, const struct settings *settings);
/* If input.max_pixels is not set, reduce this memory to the part that other needs leave free. From now on decoders use
 * no more. Called before memory_needs_check. */
void memory_needs_fit_images(struct memory_needs *memory, const struct settings *settings,
                             const struct memory_there *there);

/* A run whose towers compute in the host's memory; all members are lent. */
struct memory_fit {
    const struct settings *settings;
    const struct run_plan *plan;        /* the plan, with a batch that does not fit */
    const struct net *net;
    const struct dataset *const *datasets;
    const struct trainer_needs *needs;  /* of the tower with the largest local batch in that plan */
};

/* Plan a tower that computes in the host's memory, without allocating the memory, and report its needs. 0 or a negative
 * errno. */
int memory_needs_tower(struct tower_spec *spec, const struct device_ops *ops, struct tower_needs *needs_out);
/* The largest batch, to about 1 %, whose plan needs at most `there` bytes of the host's memory; 0: none. Plans towers a
 * few times without allocating their memory, which takes tenths of a second. */
uint32_t memory_fit(const struct memory_fit *fit, size_t there);

/* Check the needs. 0, or -ENOMEM if they exceed ram_budget or the memory of the host or of a device; `problems` then
 * contains the sums and a batch that would fit. This batch is found by memory_fit if `fit` is not NULL and the towers
 * use the host's memory; otherwise it is estimated from the sums. */
int memory_needs_check(const struct memory_needs *memory, const struct settings *settings,
                       const struct memory_there *there, const struct memory_fit *fit, struct problems *problems);
/* The line "decoding": how large images may be; printed only if there are encoded images. */
void memory_needs_print_images(const struct memory_needs *memory, const struct settings *settings, FILE *out);
/* The line "memory". */
void memory_needs_print(const struct memory_needs *memory, const struct settings *settings, FILE *out);
/* Print the needs of tower `number`. */
void memory_needs_print_tower(const struct trainer_needs *needs, uint32_t number, FILE *out);

#endif
