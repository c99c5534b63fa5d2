/* A CUDA that computes on the CPU, for tests on machines without a GPU: the functions of the CUDA runtime, cuDNN's
 * graph API, cuBLASLt and NCCL that the program calls. Programs are linked to it instead of the libraries, so the
 * device, the backend and the reductions are tested unchanged. A stream is a thread with a FIFO queue, an event is a
 * point in that queue, and the kernels are compute/cuda/kernels.cu compiled for the CPU.
 *
 * It is slow and strict. What would be undefined or a race on a GPU (a kernel on another device's stream, memory of
 * another device, an argument of the wrong type) ends the test with a message. cudaMalloc fills memory with NaNs, so
 * that reading before writing shows in the results. */
#ifndef PIPETRAIN_SIM_H
#define PIPETRAIN_SIM_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- for tests ----
 *
 * Whole programs read the same settings from the environment when they start: SIM_DEVICES (default 2), SIM_MEMORY
 * (bytes of each device, default 1 GiB), SIM_PEER=0 (no peer access), SIM_CAPABILITY=75 (compute capability 7.5,
 * default 9.0), SIM_IPC=0 (memory of another process cannot be opened), SIM_ONE_HOST_THREAD=1 (host functions of all
 * streams run one at a time, as real CUDA may run them; default 0), SIM_FAIL="cudaMalloc:3:2,ncclAllReduce:1:6"
 * (name:number:status) and SIM_BLOCK="cudaMalloc:3,kernel:20" (name:number). */

/* Number of devices, and memory of each. Before the first call of the runtime. */
void sim_setup(uint32_t devices, size_t memory_bytes);
/* One device of any size that computes and stores nothing, for counting the calls of nets that are too large for the
 * CPU. Before the first call of the runtime. */
void sim_setup_hollow(size_t memory_bytes);
/* The `number`-th call from now (1: the next one; 0: every call) of the named function, for example "cudaMalloc" or
 * "ncclAllReduce", does nothing and returns `status`, which is one of its library. */
void sim_fail(const char *function, uint32_t number, int status);
void sim_fail_clear(void);
/* The `number`-th call from now (1: the next one) of the named function blocks until sim_block_clear; then it is
 * carried out. "kernel" is a kernel of kernels.cu and "upload" a copy to a device, when a stream runs it: they block
 * the stream. */
void sim_block(const char *function, uint32_t number);
/* Blocked calls continue, and no later call blocks. */
void sim_block_clear(void);
/* Number of calls of the function since the start or the last sim_calls_clear. */
uint64_t sim_calls(const char *function);
/* Bytes of device memory that these calls of a library's function or of cudaMemcpyAsync read and write, workspaces
 * apart. */
uint64_t sim_bytes(const char *function);
void sim_calls_clear(void);
/* Every operation on a stream takes at least this long (0: no minimum). */
void sim_delay_us(uint32_t us);
/* Whether devices can access each other's memory (default true). */
void sim_set_peer_access(bool can_access);
/* Whether handles of memory can be opened (default true), also those of the same process, as tests need whose ranks are
 * threads (default false, as in real CUDA). */
void sim_set_ipc(bool is_possible, bool is_within_process);

/* ---- for the parts of the simulation ---- */

/* Counts the call; blocks if a test asked for that. Returns 0, or the status that a test wants the call to return. */
int sim_enter(const char *function);
/* Counts an event that is not a call, for tests: "pageable copy", "early launch", "compilation" (of a plan). */
void sim_count(const char *name);
/* At the beginning of a function that returns `type`: enter(name of the function), and return its status unless it is
 * 0. */
#define SIM_ENTER_WITH(enter, type)                         \
    do {                                                    \
        const type entered_ = (type)enter(__func__);        \
        if (entered_ != (type)0)                            \
            return entered_;                                \
    } while (0)
/* Queues run(arguments). The `bytes` of arguments are copied and kept until it has run. While the stream is captured
 * the operation is recorded instead, and may run many times with the same copy, which it must not change. The stream's
 * device is current while it runs. Ends the test if the stream does not belong to the calling thread's current
 * device. */
void sim_stream_push(cudaStream_t stream, void (*run)(void *arguments), const void *arguments, size_t bytes);
/* sim_enter for functions of the runtime: a failure is also the thread's last error. Ends the test on the thread of a
 * stream, because host functions must not call CUDA. */
cudaError_t sim_runtime_enter(const char *function);
/* Returns `status`, and stores it as the thread's last error unless it is success. */
cudaError_t sim_result(cudaError_t status);
/* Ends the test, with `who` in the message, unless [memory, memory + bytes) is inside one allocation of device memory
 * that `device` may access: its own, or a peer's after access was enabled. */
void sim_check_memory(const void *memory, size_t bytes, int device, const char *who);
/* The same for all operands of an operation that have bytes. The first `written` of them are written, and must not
 * overlap any other one. */
struct sim_operand { const char *name; const void *memory; size_t bytes; };
void sim_check_operands(const struct sim_operand *operands, size_t count, size_t written, int device);
size_t sim_operand_bytes(const struct sim_operand *operands, size_t count);
/* Adds to sim_bytes(function). */
void sim_count_bytes(const char *function, uint64_t bytes);
/* As if the operation that calls this took so much longer, for the times of events. */
void sim_pretend_ns(uint64_t ns);
int sim_stream_device(cudaStream_t stream);
int sim_current_device(void);
/* Zeroed memory from calloc; ends the test when there is none. */
void *sim_alloc(size_t bytes);
/* FNV-1a hash. */
uint64_t sim_hash(const void *data, size_t bytes);
/* Print "simulated CUDA: ..." to stderr and abort. */
void sim_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#ifdef __cplusplus
}
#endif

#endif
