/* Towers with their trainers, for tests: a tiny net on the reference backend or on CUDA, fed by threads of the test.
 * All functions assert that they succeed. */
#ifndef PIPETRAIN_TRAINER_FIXTURE_H
#define PIPETRAIN_TRAINER_FIXTURE_H

#include <stdatomic.h>

#include "stage/thread.h"
#include "sync/trainer.h"
#include "tests/helpers/fake_mpi.h"

enum { FIXTURE_TOWERS_MAX = 8, FIXTURE_FLOATS_MAX = 4096,
       FIXTURE_STATE_MAX = FIXTURE_FLOATS_MAX * (1 + TOWER_STATES_MAX) };

struct trainer_fixture;

struct fixture_tower {
    struct trainer_fixture *fixture;
    uint32_t tower;
    struct device *device;
    struct stream *compute, *communication, *results, *copy;
    struct slots *slots;
    struct thread *source;
    uint8_t *block;
    struct trainer *trainer;
    struct step_report *report;
    atomic_uint_fast64_t fed;   /* batches */
    uint32_t stalest;           /* the largest staleness of its training batches */
};

struct fixture_spec {
    struct schedule schedule;
    enum sync_mode mode;
    const char *reduction;      /* of towers that sum something; NULL: fixture_reduction */
    uint64_t every;
    bool keeps_buffers;
    uint32_t max_staleness;
    bool divides_rate;          /* by the staleness */
    struct optimizer optimizer;
    double average_decay;       /* 0: no averages */
    uint32_t microbatch_max;    /* 0: local batches are computed as wholes */
    bool normalizes;            /* the net has batch statistics */
    bool has_bf16_grads;        /* gradients travel as bf16 */
    bool is_frozen;             /* the rate is 0: weights stay as they are */
    bool is_late;               /* the last tower's first batch comes when the others are as far ahead as they may */
    bool has_same_samples;      /* every tower gets the first one's samples, numbered as if it had a set of its own */
    bool saves;                 /* a snapshot is taken after the last batch, and one after every training epoch */
    const float *class_weights; /* NULL: all 1 */
    uint32_t ranks;             /* the towers are dealt to so many ranks (tests/helpers/fake_mpi.h); 0: one process */
    const char *freezes;        /* parameters whose names begin so; NULL: none */
    /* Of the dense layers, of which the net then has two: 4, or 0, which is none. With schedule.slices. A tower has only
     * its own parts of their weights, and snapshots are not read. */
    uint32_t parts;
    float auxiliary;            /* the weight of an auxiliary loss; 0: the net has none */
};

struct trainer_fixture {
    struct fixture_spec spec;
    struct schedule schedule;
    struct batch_layout layout;
    struct net *net;
    struct stop *stop;
    struct gate *gate;
    struct ranks *ranks[FAKE_RANKS_MAX];
    struct reduce *reduces[FAKE_RANKS_MAX];     /* of each rank */
    struct fixture_tower towers[FIXTURE_TOWERS_MAX];
    double loss_sum;            /* over all training reports */
    uint64_t batches, images;
};

void trainer_fixture_open(struct trainer_fixture *fixture, const struct fixture_spec *spec);
/* Should a test run all combinations of its parameters? On the host, where a run is short, and in the long tests. On a
 * simulated device and under a sanitizer each value is tested with one value of the others. */
bool fixture_is_thorough(void);
/* Numbers of towers to try, up to FIXTURE_TOWERS_MAX (on CUDA to 5). Returns how many. */
size_t fixture_tower_counts(const uint32_t **counts_out);
/* In the order of pipeline_close. */
void trainer_fixture_close(struct trainer_fixture *fixture);
/* The backend of the tests' device. */
const struct backend_ops *fixture_backend(void);
struct trainer_spec fixture_trainer(struct trainer_fixture *fixture, uint32_t tower);
void fixture_start(struct trainer_fixture *fixture, uint32_t tower, const struct trainer_spec *spec);
/* All towers, with the specs of fixture_trainer. */
void fixture_start_all(struct trainer_fixture *fixture);
int fixture_ready_all(struct trainer_fixture *fixture);
void fixture_go_all(struct trainer_fixture *fixture);
/* Check and add up the reports of the next global batch: 0, or -ENODATA, -ECANCELED. */
int fixture_next_batch(struct trainer_fixture *fixture);
/* Start all towers and let them begin. */
void fixture_begin(struct trainer_fixture *fixture);
/* Run to the end, without failure. */
void fixture_drain(struct trainer_fixture *fixture);
/* Begin, and drain. */
void fixture_run(struct trainer_fixture *fixture);
/* All weights and statistics of a tower: fixture_floats of them, at most FIXTURE_FLOATS_MAX. */
size_t fixture_floats(const struct trainer_fixture *fixture);
void fixture_read_weights(struct trainer_fixture *fixture, uint32_t tower, float *weights);
/* Of a run that saves, once: a tower's weights and the optimizer's buffers after the last batch, as a checkpoint has
 * them, one after the other. Returns how many, at most FIXTURE_STATE_MAX. */
size_t fixture_read_last(struct trainer_fixture *fixture, uint32_t tower, float *floats);

/* Weights and statistics of every tower at the end, and, of a run that saves, the values of fixture_read_last. */
struct fixture_result {
    float weights[FIXTURE_TOWERS_MAX][FIXTURE_FLOATS_MAX], saved[FIXTURE_TOWERS_MAX][FIXTURE_STATE_MAX];
    size_t count, saved_count;
    uint32_t stalest[FIXTURE_TOWERS_MAX];       /* of each tower's training batches */
};
void trainer_fixture_read(struct trainer_fixture *fixture, struct fixture_result *result);
/* Open, run to the end of the schedule, read, close. */
void fixture_result_of(struct fixture_result *result, const struct fixture_spec *spec);
/* All towers have the same weights, statistics and checkpoints, to the bit. */
void assert_one_model(const struct fixture_result *result, uint32_t towers);
/* |a - b| <= tolerance * (1 + |b|). */
void assert_near(const float *a, const float *b, size_t count, float tolerance);

/* The reduction that tests use now, and the most towers it may have. */
extern const char *fixture_reduction;
extern uint32_t fixture_towers_max;
/* Run all tests of the program with reduction "host", and on devices of their own memory with "peer", and, where there
 * are several devices and the tests permit it, "nccl". An alarm ends the program after so many seconds. */
int fixture_run_tests(int (*run)(void), unsigned seconds, bool with_nccl);

/* Epochs end with a partial batch; local batches are uneven. */
struct schedule fixture_uneven(uint32_t towers);
/* Batches of 4 and, last in an epoch, of 2: the third and fourth tower sometimes have no sample, the fifth and later
 * ones never have one. */
struct schedule fixture_sparse(uint32_t towers);

#endif
