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

/* A large block begins at a huge page; up to one more of the address space may be lost before it. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

enum memory_purpose {
    MEMORY_BATCHES,             /* in the rings, on the host, and the outputs of an evaluation */
    MEMORY_LOADER,
    MEMORY_IMAGES,              /* decoding large ones, all decoders together */
    MEMORY_SLOTS,
    MEMORY_ARENAS,
    MEMORY_VALUES,
    MEMORY_WORKSPACE,
    MEMORY_WEIGHT_COPIES,
    MEMORY_SNAPSHOTS,
    MEMORY_REDUCTION,
    MEMORY_RESULTS,             /* saving the weights */
    MEMORY_TRACE,
    MEMORY_PURPOSE_COUNT
};

struct run_plan;

/* Bytes in one memory; SIZE_MAX: more than a size_t holds. */
struct memory_share { size_t bytes[MEMORY_PURPOSE_COUNT]; };

/* For all towers of this process. */
struct memory_needs {
    struct memory_share host;
    struct memory_share devices[DEVICES_MAX];
    uint32_t device_count;              /* 0 where they use the host's memory */
    const struct run_devices *names;    /* of the devices; lent */
    size_t kept_bytes;                  /* part of the loader's, for shards kept in memory */
    size_t window_spare_bytes;          /* part of the loader's that smaller windows would save */
    uint32_t samples;                   /* of a full training step, these towers; 0: towers are not planned yet */
    size_t aside;                       /* of the host's address space besides: stacks, alignment, libraries */
    size_t touched;                     /* the part of it that is written to */
};

/* The share that memory on device `device` (of those in use) is counted in. */
struct memory_share *memory_needs_on(struct memory_needs *memory, uint32_t device);
void memory_share_add(struct memory_share *share, enum memory_purpose purpose, size_t bytes);
/* Add the needs of a tower on that device. */
void memory_needs_add_tower(struct memory_needs *memory, uint32_t device, const struct trainer_needs *needs);
/* Bytes in all memories together. */
size_t memory_needs_bytes(const struct memory_needs *memory);

/* The memory that is available. */
struct memory_there {
    size_t host, devices[DEVICES_MAX];
    const char *host_says;              /* what limits the host's, for a message; NULL: "available are" */
    size_t margin;                      /* of the host's, that planning another batch may take besides */
};

/* The host's part: the least of the machine's memory and the limits of control groups, both of which the ranks of this
 * host share, and of the process, less what is not counted by purpose. */
void memory_host_there(const struct memory_needs *memory, const struct settings *settings,
                       struct memory_there *there_out);
/* Limit the memory for decoding images while data sets are opened, before there is a plan, to the budget and to what is
 * available. */
void memory_bound_images(const struct settings *settings);
/* Images may be large: add the memory for decoding that decoders share, by input.max_pixels. */
void memory_needs_add_images(struct memory_needs *memory, const struct settings *settings);
/* Where input.max_pixels is not set, reduce that to what the other needs leave. Decoders keep to it from now on. Before
 * memory_needs_check. */
void memory_needs_fit_images(struct memory_needs *memory, const struct settings *settings,
                             const struct memory_there *there);

/* A run whose towers compute in the host's memory; all lent. */
struct memory_fit {
    const struct settings *settings;
    const struct run_plan *plan;        /* of the batch that does not fit */
    const struct net *net;
    const struct dataset *const *datasets;
    const struct trainer_needs *needs;  /* of the tower with the largest local batch, in that plan */
};

/* What a tower on a device that computes in the host's memory needs: planned, without allocating it. */
int memory_needs_tower(struct tower_spec *spec, const struct device_ops *ops, struct tower_needs *needs_out);
/* The largest batch whose plan needs no more than `there` bytes of the host's memory, to about 1 %; 0: none. Plans a
 * tower a few times without allocating its memory, in tenths of a second. */
uint32_t memory_fit(const struct memory_fit *fit, size_t there);

/* 0, or -ENOMEM where the needs are over ram_budget, over what the host has, or over what a device has; `problems` then
 * shows the sums and a batch that would fit. With `fit`, where the towers use the host's memory, that batch is found by
 * memory_fit; else from the sums. */
int memory_needs_check(const struct memory_needs *memory, const struct settings *settings,
                       const struct memory_there *there, const struct memory_fit *fit, struct problems *problems);
/* The line "decoding": how large images may be, where there are encoded ones. */
void memory_needs_print_images(const struct memory_needs *memory, const struct settings *settings, FILE *out);
/* The line "memory". */
void memory_needs_print(const struct memory_needs *memory, const struct settings *settings, FILE *out);
/* What tower `number` needs. */
void memory_needs_print_tower(const struct trainer_needs *needs, uint32_t number, FILE *out);

#endif
