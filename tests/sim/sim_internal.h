/* What the files of the simulated CUDA runtime share. Every stream and every recorded point
 * has its own lock, so that work of two streams is ordered by events alone: a thread
 * sanitizer then sees a missing event as the race it is. */
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

/* The calling thread is a stream's. */
void sim_enter_stream_thread(void);
/* Count a name that is no function, for tests to see ("pageable copy"). */
void sim_count(const char *name);

/* Leave the calling function when a test wants its call to fail. */
#define SIM_ENTER()                                                     \
    do {                                                                \
        const cudaError_t entered_ = sim_runtime_enter(__func__);       \
        if (entered_ != cudaSuccess)                                    \
            return entered_;                                            \
    } while (0)

/* ---- sim_runtime.c ---- */

int sim_device_count(void);
size_t sim_device_bytes(void);
bool sim_peer_access(void);
bool sim_is_hollow(void);
void sim_set_current_device(int device);

/* ---- sim_stream.c ---- */

struct sim_op {
    struct sim_op *_Atomic next;
    void (*run)(void *arguments);       /* NULL: the stream ends here */
    bool is_work;                       /* takes time: sim_delay_us applies */
    max_align_t arguments[];
};

/* Allocates; `arguments` are copied. */
struct sim_op *sim_op_new(void (*run)(void *arguments), const void *arguments, size_t bytes, bool is_work);
void sim_op_run(struct sim_op *op);

struct sim_capture;

/* What the stream's thread writes, callers learn only by asking for it: who queues takes
 * `lock` alone, which the thread never does. */
struct CUstream_st {
    struct CUstream_st *next;           /* among all streams ever, never changed once visible */
    int device;
    pthread_mutex_t lock;               /* for the next four */
    struct sim_op *last;                /* its `next` is where the next operation goes */
    uint64_t pushed;                    /* operations */
    bool destroyed;
    struct sim_capture *capture;        /* NULL, or where operations go instead */
    sem_t queued;                       /* operations the thread has not taken */
    struct sim_op *taken;               /* the thread's: the one it runs or ran last */
    pthread_mutex_t finish_lock;        /* for the next two */
    pthread_cond_t idle;
    uint64_t finished;                  /* operations */
};

/* The stream a handle means: itself, or the device's legacy stream for NULL, which a thread
 * that captures must not use (cudaErrorStreamCaptureImplicit). */
cudaError_t sim_stream_find(cudaStream_t handle, cudaStream_t *stream_out);
/* Queue, or record when captured. Not success only when a capture was invalidated. Takes the
 * operation over. */
cudaError_t sim_stream_add(cudaStream_t stream, struct sim_op *op);
/* Block until all that is queued now has run. */
void sim_stream_drain(cudaStream_t stream);
void sim_device_drain(int device);

/* ---- sim_graph.c ---- */

/* A call that is not allowed while the thread captures: cudaErrorStreamCaptureUnsupported then,
 * and what is being captured is lost. */
cudaError_t sim_unsafe_call(void);
/* Captures of this thread are lost (none: false). */
bool sim_invalidate_captures(void);
/* Add to what is being captured. The stream's lock is held. Takes the operation over. */
cudaError_t sim_capture_add(struct sim_capture *capture, struct sim_op *op);
/* The number of the capture the stream is in, 0 = none. */
uint64_t sim_capture_of(cudaStream_t stream, bool *invalid_out);
/* Is the capture of this number one that this thread has begun and not ended? */
bool sim_capture_is_open(uint64_t number);

#endif
