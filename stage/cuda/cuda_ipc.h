/* What CUDA devices of several processes on a host need to work together: memory of another process, host memory that
 * several processes share, and values in it that streams write or wait for. The functions of the driver are found at
 * run time, so that nothing is linked with libcuda.
 *
 * Functions with `why` do not log: if they fail, they write there which call failed and why, in CUDA_IPC_WHY bytes. */
#ifndef PIPETRAIN_CUDA_IPC_H
#define PIPETRAIN_CUDA_IPC_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "stage/device.h"

#define CUDA_IPC_WHY 160u

/* Device memory as other processes can open it: it begins `offset` bytes after the begin of its allocation. */
struct cuda_export { cudaIpcMemHandle_t handle; uint64_t offset; };

/* Find the driver's functions, and check that the device uses pinned memory of the host at the host's addresses. Any
 * thread, any number of times. 0 or -ENOTSUP. */
int cuda_ipc_prepare(struct device *device, char why[CUDA_IPC_WHY]);

/* Describe memory of the device for other processes, which have to close it before it is freed. 0 or a negative
 * errno. */
int cuda_ipc_export(struct device *device, void *memory, struct cuda_export *export_out, char why[CUDA_IPC_WHY]);
/* Open memory of another process for use on this device, which may be the same one or reach it. *base_out is for
 * cuda_ipc_close, *memory_out is where the memory begins. 0 or a negative errno. */
int cuda_ipc_open(struct device *device, const struct cuda_export *export, void **base_out, void **memory_out,
                  char why[CUDA_IPC_WHY]);
/* No stream uses the memory any more. An error is logged. */
void cuda_ipc_close(struct device *device, void *base);

/* Queue writing a value in pinned memory: everything queued before is complete then, for other devices, too. 0 or a
 * negative errno; the cause is logged; -ECANCELED after a cancel of the device. */
int cuda_stream_write_value(struct stream *stream, uint32_t *address, uint32_t value);
/* Queue a wait until *address - value, as int32_t, is not negative. Whoever writes the value must not depend on work
 * that this process queues later: CUDA does not see such an order, and may execute streams of one process one after the
 * other, in the order in which they were filled. Results as above. */
int cuda_stream_wait_value(struct stream *stream, uint32_t *address, uint32_t value);
/* Has the stream ended its work, or failed? Never blocks. */
bool cuda_stream_is_idle(struct stream *stream);

#endif
