/* What a run takes, by purpose and by the memory it lies in, and whether that is there: summed up
 * before anything large is taken. Used by main only. */
#ifndef PIPETRAIN_MEMORY_PLAN_H
#define PIPETRAIN_MEMORY_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stage/device.h"
#include "sync/trainer.h"
#include "tools/config/problems.h"
#include "tools/config/settings.h"
#include "tools/run/device_plan.h"

/* A large block begins at a huge page; up to one more of the address space may lie before it. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

enum memory_purpose {
    MEMORY_BATCHES,             /* on their way to a device */
    MEMORY_LOADER,
    MEMORY_IMAGES,              /* to decode large ones, all decoders together */
    MEMORY_SLOTS,
    MEMORY_ARENAS,
    MEMORY_VALUES,
    MEMORY_WORKSPACE,
    MEMORY_WEIGHT_COPIES,
    MEMORY_SNAPSHOTS,
    MEMORY_REDUCTION,
    MEMORY_RESULTS,             /* to save the weights */
    MEMORY_TRACE,
    MEMORY_PURPOSE_COUNT
};

struct memory_fit;

/* Bytes in one memory; what does not fit into a size_t is SIZE_MAX. */
struct memory_share { size_t bytes[MEMORY_PURPOSE_COUNT]; };

/* Of all towers of this process. */
struct memory_plan {
    struct memory_share host;
    struct memory_share devices[DEVICES_MAX];
    uint32_t device_count;              /* 0 where they use the host's memory */
    const struct device_plan *names;    /* of the devices; lent */
    size_t kept_bytes;                  /* of the loader's, for shards kept in memory */
    size_t window_spare_bytes;          /* of the loader's, that smaller windows would save */
    uint32_t samples;                   /* of a full training step, all towers; 0: what they need is not in it yet */
    size_t aside;                       /* of the host's address space, beside all that: stacks, alignment, libraries */
    size_t touched;                     /* the part of it that is written to */
};

/* The share that what lies on device `device` (of those in use) is part of. */
struct memory_share *memory_plan_on(struct memory_plan *plan, uint32_t device);
void memory_share_add(struct memory_share *share, enum memory_purpose purpose, size_t bytes);
/* A tower on that device is planned: what it needs counts from here on. */
void memory_plan_add_tower(struct memory_plan *plan, uint32_t device, const struct trainer_needs *needs);
/* All of it. */
size_t memory_plan_bytes(const struct memory_plan *plan);

/* What can be had. */
struct memory_there {
    size_t host, devices[DEVICES_MAX];
    const char *host_says;              /* who leaves so much: "available are", NULL: the same */
    size_t margin;                      /* of the host's, that planning another batch may take besides */
};

/* The smallest of what the machine has, as far as the kernel knows, what control groups leave, and what the limits
 * of the process leave, when what the plan does not count by purpose is taken besides. Fills in the host's half. */
void memory_host_there(const struct memory_plan *plan, struct memory_there *there_out);
/* While data sets are opened, before there is a plan: images are decoded within the budget and what there is. */
void memory_bound_images(const struct settings *settings);
/* Images may be large, and decoding those takes memory that decoders share: as much as input.max_pixels says. */
void memory_plan_add_images(struct memory_plan *plan, const struct settings *settings);
/* Where input.max_pixels is not set they take what the rest of the plan leaves, which is told; decoders keep to it from
 * here on. In front of memory_plan_check. */
void memory_plan_fit_images(struct memory_plan *plan, const struct settings *settings,
                            const struct memory_there *there);
/* 0, or -ENOMEM with the arithmetic in `problems`, and the batch that would fit where there is one:
 * over ram_budget, over what the host has, or over what a device has. Without `fit` that batch is what the sums
 * tell; with it, where the towers are the host's, what a plan of its own does. */
int memory_plan_check(const struct memory_plan *plan, const struct settings *settings, const struct memory_there *there,
                      const struct memory_fit *fit, struct problems *problems);
/* How large images may be, where there are encoded ones. */
void memory_plan_print_images(const struct memory_plan *plan, const struct settings *settings, FILE *out);
/* The sums, on one line. */
void memory_plan_print(const struct memory_plan *plan, FILE *out);
/* What tower `number` needs. */
void memory_plan_print_tower(const struct trainer_needs *needs, uint32_t number, FILE *out);

#endif
