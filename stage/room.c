/* The proof is a mapping that is never touched. */
#include "stage/room.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

/* One at a time: two proofs would each find the other's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int room_prove(size_t bytes)
{
    pthread_mutex_lock(&lock);
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    pthread_mutex_unlock(&lock);
    return memory != MAP_FAILED ? 0 : -ENOMEM;
}
