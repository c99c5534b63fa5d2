/* Work of a stream recorded once and launched as one: a CUDA graph. From the tower's thread. */
#ifndef PIPETRAIN_CUDA_GRAPH_H
#define PIPETRAIN_CUDA_GRAPH_H

#include <cuda_runtime_api.h>

struct recording;

/* Why a recording could not be made, for a caller that has another way. */
struct recording_refusal { char text[160]; };

/* Record what queue(arg) queues on `stream` without running it. 0, or a negative errno with
 * the cause in *refusal and not logged; when queue itself failed, what it returned. */
int recording_open(struct recording **recording_out, cudaStream_t stream, int (*queue)(void *arg), void *arg,
                   struct recording_refusal *refusal);
void recording_close(struct recording *recording);
/* Queue all of it on `stream`. */
cudaError_t recording_run(struct recording *recording, cudaStream_t stream);

#endif
