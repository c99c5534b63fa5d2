/* Which files are open. Called by readers and decoders for every read, and while shards are opened.
 *
 * Whoever reads counts itself in the file's state and finds there whether the descriptor is open. Only a
 * file whose count is 0 is closed, by an exchange that fails when the count has changed. What is open is
 * an array that a hand goes round: a file it passes loses its mark, and one without a mark is closed. */
#include "loader/shards/descriptor_pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define STATE_OPEN (1u << 31)
#define STATE_USED (1u << 30)

/* Descriptors left to the rest of the process: results, devices, second reads. */
#define SPARE_MIN 32u
#define SPARE_SHARE 4u
#define OPEN_MIN 4u
#define LIMIT_MAX (1u << 16)

/* All but `waiting` under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;       /* a file is no longer read, or could not be opened */
    atomic_uint waiting;
    struct pooled_file **open;  /* room for every file */
    size_t open_count, room;
    size_t files;
    size_t slots;               /* files open or being opened: <= limit */
    size_t limit;
    size_t hand;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER };

static size_t find_limit(void)
{
    struct rlimit limit;
    const bool is_known = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < LIMIT_MAX;
    const size_t all = is_known ? (size_t)limit.rlim_cur : LIMIT_MAX;
    const size_t spare = all / SPARE_SHARE > SPARE_MIN ? all / SPARE_SHARE : SPARE_MIN;
    return all >= spare + OPEN_MIN ? all - spare : OPEN_MIN;
}

static int reserve_locked(void)
{
    if (pool.files < pool.room)
        return 0;
    const size_t room = pool.room > 0 ? 2 * pool.room : 64;
    struct pooled_file **const grown = realloc(pool.open, room * sizeof(struct pooled_file *));
    if (grown == NULL)
        return -ENOMEM;
    pool.open = grown;
    pool.room = room;
    return 0;
}

int pooled_file_init(struct pooled_file *file, int (*open)(struct pooled_file *file))
{
    pthread_mutex_lock(&pool.lock);
    const int rc = reserve_locked();
    if (rc == 0)
        pool.files++;
    pool.limit = find_limit();
    pthread_mutex_unlock(&pool.lock);
    *file = (struct pooled_file){ .open = open };
    return rc;
}

/* The file is no longer among the open ones. Its descriptor, which the caller closes. */
static int remove_locked(struct pooled_file *file)
{
    struct pooled_file *const last = pool.open[--pool.open_count];
    pool.open[file->place] = last;
    last->place = file->place;
    pool.slots--;
    return file->fd;
}

/* Whether nobody reads the file: then it is closed for everybody from now on. */
static bool shut(struct pooled_file *file)
{
    unsigned unused = STATE_OPEN;
    return atomic_compare_exchange_strong(&file->state, &unused, 0);
}

/* The descriptor of a file that was not read lately, out of the pool, or -1 when all are being read. */
static int evict_locked(void)
{
    for (size_t i = 0; i < 2 * pool.open_count; i++) {
        if (pool.hand >= pool.open_count)
            pool.hand = 0;
        struct pooled_file *const file = pool.open[pool.hand];
        if (shut(file))
            return remove_locked(file);
        atomic_fetch_and(&file->state, ~STATE_USED);
        pool.hand++;
    }
    return -1;
}

static void close_if_any(int fd)
{
    if (fd >= 0)
        close(fd);
}

bool descriptor_pool_make_room(void)
{
    pthread_mutex_lock(&pool.lock);
    const int fd = evict_locked();
    pthread_mutex_unlock(&pool.lock);
    close_if_any(fd);
    return fd >= 0;
}

static bool is_open(const struct pooled_file *file)
{
    return (atomic_load(&file->state) & STATE_OPEN) != 0;
}

/* Have a slot for a file that is not open, closing another one where all are taken. True when
 * somebody else has opened it meanwhile. */
static bool have_slot_locked(const struct pooled_file *file, int *closed_out)
{
    *closed_out = -1;
    atomic_fetch_add(&pool.waiting, 1);
    while (!is_open(file) && pool.slots >= pool.limit && (*closed_out = evict_locked()) < 0)
        pthread_cond_wait(&pool.freed, &pool.lock);
    atomic_fetch_sub(&pool.waiting, 1);
    if (is_open(file))
        return true;
    pool.slots++;
    return false;
}

static int open_making_room(struct pooled_file *file)
{
    int fd = file->open(file);
    while ((fd == -EMFILE || fd == -ENFILE) && descriptor_pool_make_room())
        fd = file->open(file);
    return fd;
}

/* With a slot: the descriptor just opened becomes the file's, unless it has one by now. The one not
 * needed, or -1. */
static int add_locked(struct pooled_file *file, int fd)
{
    if (fd < 0 || is_open(file)) {
        pool.slots--;
        pthread_cond_broadcast(&pool.freed);
        return fd;
    }
    file->fd = fd;
    file->place = pool.open_count;
    pool.open[pool.open_count++] = file;
    atomic_fetch_add(&file->state, STATE_OPEN | STATE_USED);
    return -1;
}

/* Of a file that was not open when it was looked at. */
static int take_closed(struct pooled_file *file)
{
    int closed;
    pthread_mutex_lock(&pool.lock);
    const bool is_there = have_slot_locked(file, &closed);
    if (is_there)
        atomic_fetch_add(&file->state, 1);
    pthread_mutex_unlock(&pool.lock);
    close_if_any(closed);
    if (is_there)
        return file->fd;
    const int fd = open_making_room(file);
    pthread_mutex_lock(&pool.lock);
    const int unneeded = add_locked(file, fd);
    if (fd >= 0)
        atomic_fetch_add(&file->state, 1);
    pthread_mutex_unlock(&pool.lock);
    close_if_any(unneeded);
    return fd < 0 ? fd : file->fd;
}

int pooled_file_try(struct pooled_file *file)
{
    const unsigned before = atomic_fetch_add(&file->state, 1);
    if ((before & STATE_OPEN) == 0) {
        atomic_fetch_sub(&file->state, 1);
        return -EAGAIN;
    }
    if ((before & STATE_USED) == 0)
        atomic_fetch_or(&file->state, STATE_USED);
    return file->fd;
}

int pooled_file_take(struct pooled_file *file)
{
    const int fd = pooled_file_try(file);
    return fd == -EAGAIN ? take_closed(file) : fd;
}

void pooled_file_give_back(struct pooled_file *file)
{
    atomic_fetch_sub(&file->state, 1);
    if (atomic_load(&pool.waiting) == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.freed);
    pthread_mutex_unlock(&pool.lock);
}

void pooled_file_release(struct pooled_file *file)
{
    int fd = -1;
    assert((atomic_load(&file->state) & ~(STATE_OPEN | STATE_USED)) == 0);
    pthread_mutex_lock(&pool.lock);
    if (is_open(file))
        fd = remove_locked(file);
    if (--pool.files == 0) {
        free(pool.open);
        pool.open = NULL;
        pool.room = 0;
    }
    pthread_cond_broadcast(&pool.freed);
    pthread_mutex_unlock(&pool.lock);
    close_if_any(fd);
}
