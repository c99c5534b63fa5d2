/* Proofs of room, and a note for each thread that makes things. */
#include "compute/onednn/onednn_room.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "stage/address_space.h"

static atomic_uint towers;
static pthread_rwlock_t making = PTHREAD_RWLOCK_INITIALIZER;    /* read by those that make things, written by a proof */
static _Thread_local bool is_short;

void nn_room_join(void)
{
    atomic_fetch_add(&towers, 1);
}

void nn_room_leave(void)
{
    atomic_fetch_sub(&towers, 1);
}

int nn_room(void)
{
    const size_t planning = atomic_load(&towers);
    pthread_rwlock_wrlock(&making);
    const int rc = check_address_space((planning > 0 ? planning : 1) * NN_ROOM_BYTES);
    pthread_rwlock_unlock(&making);
    if (rc != 0)
        nn_room_short();
    return rc;
}

/* What others prove and make in between is within their share of what was proved. */
int nn_room_hold(void)
{
    const int rc = nn_room();
    if (rc == 0)
        pthread_rwlock_rdlock(&making);
    return rc;
}

void nn_room_release(void)
{
    pthread_rwlock_unlock(&making);
}

void nn_room_short(void)
{
    is_short = true;
}

int nn_room_result(int rc)
{
    const bool was_short = is_short;
    is_short = false;
    return was_short ? -ENOMEM : rc;
}
