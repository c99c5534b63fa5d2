/* Room for what oneDNN makes. It writes kernels into memory that it maps by itself, and where it gets none it ends
 * the process: by an exception nobody catches, or by writing to NULL. So there is proved to be room before each
 * thing it makes. What it then does not find for want of memory is no fault of its own, and is told apart. */
#ifndef PIPETRAIN_ONEDNN_ROOM_H
#define PIPETRAIN_ONEDNN_ROOM_H

#include <stddef.h>

/* Bytes that are proved for each tower. One thing takes up to 3 MiB, most of them far less: of runs under all limits
 * of the address space (ulimit -v, mnist_cnn and resnet20_v1, AVX-512) some crashed with 2 MiB and none with 3. */
#define NN_ROOM_BYTES ((size_t)16 << 20)

/* A tower begins to make things, and makes no more. They may do so at the same time, each in its thread. */
void nn_room_join(void);
void nn_room_leave(void);
/* There is room: 0, or -ENOMEM, which is noted. Waits while a tower holds room. */
int nn_room(void);
/* Around each call that makes something: nn_room, and until the release no tower proves that there is room, because
 * a proof takes for a moment what it proves. Held by each tower for itself; not held when the result is not 0. */
int nn_room_hold(void);
void nn_room_release(void);
/* A call had no memory. */
void nn_room_short(void);
/* The result of what was made in this thread since it was asked last: `rc`, or -ENOMEM when memory ran short. */
int nn_room_result(int rc);

#endif
