/* A CUDA that computes on the CPU, for tests on machines without a GPU: the same functions
 * as the CUDA runtime, cuDNN's graph API, cuBLASLt and NCCL, as far as the program calls
 * them, so that device, backend and reductions run as they are, linked to this instead of
 * the libraries. Streams are threads with a FIFO, events points in them, kernels are
 * compute/cuda/kernels.cu compiled for the CPU. Slow, and strict: what the real library would
 * refuse or what would be a race there (a kernel on another device's stream, memory that is
 * not the device's, an argument of the wrong type) ends the test with a message.
 * cudaMalloc fills memory with a pattern of NaNs: reading before writing shows. */
#ifndef PIPETRAIN_SIM_H
#define PIPETRAIN_SIM_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for tests ---- */

/* Devices there are (default 2, or the environment's SIM_DEVICES) and bytes of each (default
 * 1 GiB, or SIM_MEMORY). Before the first call of the runtime. */
void sim_setup(uint32_t devices, size_t memory_bytes);
/* Instead: one device of any size that computes and keeps nothing. For counting the calls of nets that
 * are too large for the CPU. */
void sim_setup_hollow(size_t memory_bytes);
/* The `number`-th call (1 = the next) of the function named, e.g. "cudaMalloc",
 * "ncclAllReduce", returns `status` (of its library) without doing anything; 0 = every call
 * from now on. The environment's SIM_FAIL="cudaMalloc:3:2,ncclAllReduce:1:6" (name:number:status)
 * says the same for whole programs. */
void sim_fail(const char *function, uint32_t number, int status);
void sim_fail_clear(void);
/* The `number`-th call (1 = the next) of the function named does not return before sim_block_clear; then it is carried
 * out. "kernel" stands for the number-th kernel of kernels.cu that a stream runs, "upload" for a copy to it: the
 * stream stands still. The environment's SIM_BLOCK="cudaMalloc:3,kernel:20" says the same for whole programs, until
 * they end. */
void sim_block(const char *function, uint32_t number);
/* Blocked calls return, and none blocks any more. */
void sim_block_clear(void);
/* How often the function was called since the start or sim_calls_clear. */
uint64_t sim_calls(const char *function);
void sim_calls_clear(void);
/* Work on streams of every device takes at least so long per operation (0: as long as it takes). */
void sim_delay_us(uint32_t us);
/* SIM_CAPABILITY=75 in the environment: devices of compute capability 7.5 (default 9.0). */
/* Can the devices reach each other's memory (default true, or SIM_PEER=0)? */
void sim_set_peer_access(bool can_access);

/* ---- for the parts of the simulation ---- */

/* Count the call; nonzero status when a test wants this one to fail. Blocks when a test wants that. */
int sim_enter(const char *function);
/* Queue run(arguments), a copy of `bytes` bytes being kept until it ran; recorded instead
 * of run when the stream is being captured (then possibly run many times, always with the
 * same copy: run must not change it). Within run the stream's device is current. Ends the test
 * when the stream is not of the calling thread's current device. */
void sim_stream_push(cudaStream_t stream, void (*run)(void *arguments), const void *arguments, size_t bytes);
/* The same, and tells what a function of the runtime would have returned: not success when what
 * was being captured is lost. */
cudaError_t sim_stream_try_push(cudaStream_t stream, void (*run)(void *arguments), const void *arguments,
                                size_t bytes);
/* sim_enter for functions of the runtime: a failure is also the thread's last error. Ends the
 * test on a stream's own thread: host functions must not call CUDA. */
cudaError_t sim_runtime_enter(const char *function);
/* `status`, remembered as the thread's last error unless it is success. */
cudaError_t sim_result(cudaError_t status);
/* Is [memory, memory + bytes) inside one allocation of device memory that `device` may use
 * (its own, or a peer's after access was enabled)? Ends the test with `who` in the message
 * when not. */
void sim_check_memory(const void *memory, size_t bytes, int device, const char *who);
int sim_stream_device(cudaStream_t stream);
int sim_current_device(void);
/* Print "simulated CUDA: ..." to stderr and abort. */
void sim_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#ifdef __cplusplus
}
#endif

#endif
