/* The images of archives that are kept in memory. Filled by the main thread of the converters of archives; read by any
 * thread. */
#include "tools/convert/archive_store.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/lib/limits.h"

#define STORE_FIRST ((size_t)1 << 20)

/* Half the memory of the machine, or of what is left in the control group of this process if that is less. */
void archive_store_init(struct archive_store *store)
{
    const size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t group = cgroup_memory_left("");

    *store = (struct archive_store){ .limit = (machine < group ? machine : group) / 2 };
}

static int store_reserve(struct archive_store *store, uint64_t bytes)
{
    size_t room = store->room > 0 ? store->room : STORE_FIRST;

    if (bytes > store->limit - store->count)
        return -EFBIG;
    while (room < store->count + bytes)
        room = room > store->limit / 2 ? store->limit : 2 * room;
    if (room <= store->room)
        return 0;
    uint8_t *const grown = realloc(store->bytes, room);
    if (grown == NULL)
        return -ENOMEM;
    store->bytes = grown;
    store->room = room;
    return 0;
}

int archive_store_load(struct archive_store *store, struct archive_walk *walk, const struct archive_member *member)
{
    const int rc = store_reserve(store, member->bytes);
    return rc < 0 ? rc : archive_walk_read(walk, store->bytes + store->count, (size_t)member->bytes);
}

void archive_store_keep(struct archive_store *store, uint64_t bytes)
{
    store->count += (size_t)bytes;
}

void archive_store_release(struct archive_store *store)
{
    free(store->bytes);
    *store = (struct archive_store){ 0 };
}
