/* Towers with their trainers, for tests: a tiny net on the reference backend or on CUDA, fed by
 * threads of the test. Everything asserts that it succeeds. */
#ifndef PIPETRAIN_TRAINER_RIG_H
#define PIPETRAIN_TRAINER_RIG_H

#include <stdatomic.h>

#include "stage/thread.h"
#include "sync/trainer.h"

enum { RIG_TOWERS_MAX = 8, RIG_FLOATS_MAX = 4096, RIG_STATE_MAX = RIG_FLOATS_MAX * (1 + TOWER_STATES_MAX) };

struct rig;

struct lane {
    struct rig *rig;
    uint32_t tower;
    struct device *device;
    struct stream *compute, *communication, *copy;
    struct slots *slots;
    struct thread *source;
    uint8_t *block;
    struct trainer *trainer;
    struct step_report *report;
    atomic_uint_fast64_t fed;   /* batches */
    uint32_t stalest;           /* the largest staleness of its training batches */
};

struct rig_spec {
    struct schedule schedule;
    enum sync_mode mode;
    const char *reduction;      /* of towers that sum something */
    uint64_t every;
    bool keeps_buffers;
    uint32_t max_staleness;
    struct optimizer optimizer;
    double average_decay;       /* 0: no averages */
    uint32_t piece_max;         /* 0: slices are computed as wholes */
    bool normalizes;            /* the net has batch statistics */
    bool has_bf16_grads;        /* gradients travel as bf16 */
    bool is_frozen;             /* the rate is 0: weights stay as they are */
    bool is_late;               /* the last tower's first batch comes when the others are as far ahead as they may */
    bool has_same_slices;       /* every tower gets the first one's samples, numbered as if it had a set of its own */
    bool saves;                 /* a snapshot is taken behind the last batch, and one behind every training epoch */
    const char *freezes;        /* parameters whose names begin so; NULL: none */
};

struct rig {
    struct rig_spec spec;
    struct schedule schedule;
    struct batch_layout layout;
    struct net *net;
    struct stop *stop;
    struct gate *gate;
    struct reduce *reduce;
    struct lane lanes[RIG_TOWERS_MAX];
    double loss_sum;            /* over all training reports */
    uint64_t batches, images;
};

void rig_open(struct rig *rig, const struct rig_spec *spec);
/* Are all combinations of what is tried to be tried? On the host, where a run takes little, and in the long tests. On a
 * simulated device each value is tried with one value of the others. */
bool rig_is_thorough(void);
/* Numbers of towers to try, up to RIG_TOWERS_MAX (on CUDA to 5). Returns how many. */
size_t rig_tower_counts(const uint32_t **counts_out);
/* The order of pipeline_close. */
void rig_close(struct rig *rig);
struct trainer_spec rig_trainer(struct rig *rig, uint32_t tower);
void rig_start(struct rig *rig, uint32_t tower, const struct trainer_spec *spec);
/* All towers as they should be. */
void rig_start_all(struct rig *rig);
int rig_ready_all(struct rig *rig);
void rig_go_all(struct rig *rig);
/* The reports of the next global batch, 0, or how it ended. */
int rig_next_batch(struct rig *rig);
/* Start, run to the end of the schedule. */
void rig_run(struct rig *rig);
/* All weights and statistics of a tower, rig_floats of them, at most RIG_FLOATS_MAX. */
size_t rig_floats(const struct rig *rig);
void rig_read_weights(struct rig *rig, uint32_t tower, float *weights);
/* Of a run that saves, once: a tower's weights and the optimizer's buffers behind the last batch, as a saved state has
 * them, one after the other. Returns how many, at most RIG_STATE_MAX. */
size_t rig_read_last(struct rig *rig, uint32_t tower, float *floats);

#endif
