/* Shared by the files of the simulated CUDA runtime. Every stream and every point in a stream has its own lock, so only
 * events order the work of two streams: the thread sanitizer reports a missing event as the race it is. */
#ifndef PIPETRAIN_SIM_INTERNAL_H
#define PIPETRAIN_SIM_INTERNAL_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/sim.h"

#define SIM_DEVICES_MAX 64

/* ---- sim_fail.c ---- */

/* The calling thread is that of a stream. */
void sim_enter_stream_thread(void);

/* At the beginning of every function of the runtime. */
#define SIM_ENTER() SIM_ENTER_WITH(sim_runtime_enter, cudaError_t)

/* ---- sim_runtime.c ---- */

int sim_device_count(void);
size_t sim_device_bytes(void);
bool sim_peer_access(void);
bool sim_is_hollow(void);
bool sim_ipc(void);
bool sim_ipc_is_within_process(void);
/* Host functions run one at a time. */
bool sim_has_one_host_thread(void);
void sim_set_current_device(int device);

/* ---- sim_memory.c ---- */

/* The allocation of device memory that holds the byte. */
cudaError_t sim_memory_range(const void *memory, void **base_out, size_t *bytes_out);
/* Ends the test unless the device can wait for the 32-bit value at this address, or write it. */
void sim_check_value(const void *address, int device, const char *who);

/* ---- sim_stream.c ---- */

struct sim_op {
    struct sim_op *_Atomic next;
    void (*run)(void *arguments);       /* NULL: the stream ends here */
    bool is_work;                       /* takes time: sim_delay_us applies */
    max_align_t arguments[];
};

/* Allocates an operation with a copy of `arguments`. */
struct sim_op *sim_op_new(void (*run)(void *arguments), const void *arguments, size_t bytes, bool is_work);
void sim_op_run(struct sim_op *op);

/* A thread that queues work takes only `lock`, and the stream's thread never takes it: so a caller learns what has run
 * only by asking for it. */
struct CUstream_st {
    struct CUstream_st *next;           /* in the list of all streams ever opened; constant */
    int device;
    pthread_mutex_t lock;               /* protects the next four fields */
    struct sim_op *last;                /* its `next` is where the next operation goes */
    uint64_t pushed;                    /* operations */
    bool destroyed;
    struct sim_branch *capture;         /* where operations go instead while the stream is captured, else NULL */
    sem_t queued;                       /* operations that the thread has not taken */
    struct sim_op *taken;               /* used by the thread only: the operation that it runs or ran last */
    pthread_mutex_t finish_lock;        /* protects the next two fields */
    pthread_cond_t idle;
    uint64_t finished;                  /* operations */
};

/* Ends the test when the stream is destroyed, or is the legacy or per-thread default stream, which are not
 * simulated. */
void sim_stream_check(cudaStream_t stream);
/* Queues the operation, or records it while the stream is captured. Takes over the operation. */
void sim_stream_add(cudaStream_t stream, struct sim_op *op);
/* Blocks until all operations that are queued now have run. */
void sim_stream_drain(cudaStream_t stream);
void sim_device_drain(int device);

/* ---- sim_graph.c ---- */

/* Ends the test when the calling thread captures a stream, because `function` is not allowed then. */
void sim_check_no_capture(const char *function);
bool sim_stream_is_captured(cudaStream_t stream);
/* Appends to the branch. Takes over the operation. */
void sim_branch_add(struct sim_branch *branch, struct sim_op *op);

/* Where in a capture an event was recorded: after the first `count` operations of a branch. `capture` 0: nowhere. */
struct sim_mark {
    uint64_t capture;
    unsigned int branch;
    uint64_t count;
};
/* If this thread captures the stream: sets the mark to its end, and returns true. Else *mark_out is nowhere. */
bool sim_capture_mark(cudaStream_t stream, struct sim_mark *mark_out);
/* If the mark is in the capture of this thread: the stream waits for it, and takes part in the capture from now on.
 * False: neither the mark nor the stream has to do with a capture. Ends the test where CUDA would reject the wait. */
bool sim_capture_wait(cudaStream_t stream, const struct sim_mark *mark);

#endif
