/* Whose heartbeat the calling thread has. */
#include "stage/heartbeat.h"

_Thread_local struct heartbeat *heartbeat_own;
atomic_bool heartbeat_left_behind;

struct heartbeat *heartbeat_adopt(struct heartbeat *heartbeat)
{
    struct heartbeat *const before = heartbeat_own;
    heartbeat_own = heartbeat;
    return before;
}
