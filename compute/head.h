/* The head of a network in a tower (compute/share.h): the memory that it exchanges with other towers, and the plans of
 * its own parts. Used by the tower (compute/tower.h), from the tower's thread.
 *
 * The head computes whole batches. It has a row for every sample that any slice may have: slice s has rows
 * [s * slice_max, (s + 1) * slice_max), and rows without a sample are zeros without a label. So what is computed does not
 * depend on the number of towers. All memory of a run that towers exchange is one region; its parts:
 *
 *   features    [row][number]                   from the trunk, later the gradients of the features
 *   labels      [row]                           struct mixed_label
 *   outputs     [stage][part][row][unit]        of every stage but the last, later their gradients
 *   statistics  [part][row]                     struct part_stats of the logits
 *   norms       [part][number]                  what updates need to know of all parts (compute/part_norms.h)
 *
 * Each is exchanged in equal pieces, one for each tower in order (struct head_exchange). */
#ifndef PIPETRAIN_HEAD_H
#define PIPETRAIN_HEAD_H

#include "compute/backend.h"
#include "compute/share.h"

struct head_run;

/* An exchange of memory of the region between all towers. Tower n's piece is its floats
 * [offset + n * count, offset + (n + 1) * count). */
struct head_exchange {
    size_t offset, count;
    bool sums;                  /* tower n gets the sum of all towers' numbers of its piece; false: every tower gets
                                 * every piece from its tower */
};

#define HEAD_EXCHANGES_MAX (3u + 2u * HEAD_STAGES_MAX)

/* The numbers of the exchanges: in the order of a step. */
enum { HEAD_FEATURES, HEAD_LABELS, HEAD_OUTPUTS };
/* After forward of a stage: its outputs, or after the last one the statistics. */
static inline uint32_t head_exchange_after(uint32_t stage)
{
    return HEAD_OUTPUTS + stage;
}
/* After backward of a stage that sends gradients: the gradients of its inputs. */
static inline uint32_t head_exchange_of_gradients(const struct head *head, uint32_t stage)
{
    return HEAD_OUTPUTS + 2 * head->stage_count - 1 - stage;
}
/* Before the update. */
static inline uint32_t head_exchange_of_norms(const struct head *head)
{
    return HEAD_OUTPUTS + 2 * head->stage_count;
}

struct head_spec {
    const struct head *head;            /* lent */
    struct part_range own;
    uint32_t slices;                    /* of the run */
    uint32_t slice_max;                 /* the most samples of a slice */
    uint32_t first_block;               /* blocks before it are the trunk's (struct plan_spec) */
    size_t norm_floats;                 /* of every part: param_groups_part_floats */
    bool trains, evaluates;
    struct device *device;              /* lent */
    struct stream *compute;             /* lent */
    const struct backend_ops *ops;
    struct backend *backend;            /* lent */
};

/* Make the plans; allocate no device memory. 0 or a negative errno. Close after success and failure. */
int head_open(struct head_run **run_out, const struct head_spec *spec);
void head_close(struct head_run *run);          /* accepts NULL */
/* Bytes of device memory that head_allocate allocates. */
size_t head_bytes(const struct head_run *run);
/* Allocate it, zeroed, and connect the plans with it. 0 or a negative errno. */
int head_allocate(struct head_run *run);

/* Write a line per layer of the first own part of every stage, as backend_ops.plan_describe does; the other parts are
 * alike. */
void head_describe(const struct head_run *run, void (*write)(void *arg, const char *line), void *arg);

/* The region, after head_allocate, and its size. */
float *head_region(const struct head_run *run);
size_t head_region_count(const struct head_run *run);
/* The norms in the region. */
float *head_norms(const struct head_run *run);
/* The exchanges of a step; count 0: it is not made (the gradients of a stage that sends none, norms that no update
 * needs). Returns their number. */
uint32_t head_exchanges(const struct head_run *run, struct head_exchange exchanges_out[HEAD_EXCHANGES_MAX]);

/* The memory with which the trunk's plans of this slice of the run are to be connected. */
struct outside head_outside(const struct head_run *run, uint32_t slice);
/* The first row of a slice. */
uint32_t head_row(const struct head_run *run, uint32_t slice);

/* ---- a step: each function queues work on the compute stream and returns 0 or a negative errno ---- */

/* Fill the rows of a slice from its sample `count` on with nothing. */
int head_send_nothing(struct head_run *run, uint32_t slice, uint32_t count);
/* `position` numbers the first row for dropout, in its epoch. */
struct head_batch { bool training; uint64_t position; uint32_t epoch; };
/* Forward of own parts of a stage, in order from 0, each after the exchange before it. */
int head_forward(struct head_run *run, uint32_t stage, const struct head_batch *batch);
/* Backward of own parts of a stage, from the last to 0, of the last forward, which was training. Writes the gradients of
 * parameters, and the sum over own parts of the gradients of its inputs to the region. */
int head_backward(struct head_run *run, uint32_t stage);
/* The plan of the loss of the last forward, for backend_ops.part_result and the like. */
struct plan *head_loss_plan(const struct head_run *run, bool training);

#endif
