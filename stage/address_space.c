/* Checks by mapping memory without touching it. */
#include "stage/address_space.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

int check_address_space(size_t bytes)
{
    /* One check at a time, since concurrent checks would count each other's mappings. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    pthread_mutex_unlock(&lock);
    return memory != MAP_FAILED ? 0 : -ENOMEM;
}
