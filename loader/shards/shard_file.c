/* Shards in plain files, and the pool of their descriptors. Called by readers and decoders for every read, and while
 * shards are opened. Files are read with pread and not mapped, so that a file that is truncated while it is read causes
 * an error, not a signal.
 *
 * The pool keeps as many files open as the process may have. A file is opened when it is read, and files that were not
 * read recently are closed to make room. Reading holds no lock: a thread that reads a file increments the count in the
 * file's state, where it also sees whether the descriptor is open. A file is closed only if its count is 0, by a
 * compare-and-exchange that fails if the count has changed. The file to close is chosen by the clock algorithm: a hand
 * circles over the open files, clears the "used" flag of each file it passes, and closes the first one without the
 * flag. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/shard_source.h"

/* ---- the pool: one per process, since the limit of descriptors is per process ---- */

struct pooled_file {
    /* Open the file. Returns a descriptor or a negative errno. Several threads may call it at once; all descriptors but
     * one are then closed. */
    int (*open)(struct pooled_file *file);
    atomic_uint state;          /* number of reading threads, plus the flags STATE_OPEN and STATE_USED */
    int fd;                     /* constant while the file is open */
    size_t place;               /* index in pool.open; protected by the pool's lock */
};

#define STATE_OPEN (1u << 31)
#define STATE_USED (1u << 30)

/* Descriptors reserved for the rest of the process (results, devices, second reads): at least SPARE_MIN, or 1 /
 * SPARE_SHARE of the limit. */
#define SPARE_MIN 32u
#define SPARE_SHARE 4u
#define OPEN_MIN 4u
#define LIMIT_MAX (1u << 16)

/* The lock protects all fields except `waiting`. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t freed;       /* signalled when a read ends, and when a file could not be opened */
    atomic_uint waiting;
    struct pooled_file **open;  /* room for every file */
    size_t open_count, room;
    size_t files;
    size_t slots;               /* number of files open or being opened: <= limit */
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

static int pooled_file_init(struct pooled_file *file, int (*open)(struct pooled_file *file))
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

/* Remove the file from the list of open files. Returns its descriptor, which the caller closes. */
static int remove_locked(struct pooled_file *file)
{
    struct pooled_file *const last = pool.open[--pool.open_count];
    pool.open[file->place] = last;
    last->place = file->place;
    pool.slots--;
    return file->fd;
}

/* Mark the file as closed if no thread is reading it. */
static bool try_shut(struct pooled_file *file)
{
    unsigned unused = STATE_OPEN;
    return atomic_compare_exchange_strong(&file->state, &unused, 0);
}

/* Remove a file that was not read recently. Returns its descriptor, or -1 if all files are being read. */
static int evict_locked(void)
{
    for (size_t i = 0; i < 2 * pool.open_count; i++) {
        if (pool.hand >= pool.open_count)
            pool.hand = 0;
        struct pooled_file *const file = pool.open[pool.hand];
        if (try_shut(file))
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

/* Close a file that no thread is reading, because another open ran out of descriptors. False if there is none. */
static bool descriptor_pool_make_room(void)
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

/* Get a slot for a file that is not open, evicting another file if all slots are in use. True if another thread has
 * opened the file in the meantime. */
static bool get_slot_locked(const struct pooled_file *file, int *closed_out)
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

/* Store the new descriptor in the file, unless the file is already open. Returns a descriptor to close, or -1. */
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

/* pooled_file_take for a file that was not open. */
static int take_closed(struct pooled_file *file)
{
    int closed;
    pthread_mutex_lock(&pool.lock);
    const bool is_there = get_slot_locked(file, &closed);
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

/* Returns the descriptor if the file is open, else -EAGAIN. Never waits. */
static int pooled_file_try(struct pooled_file *file)
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

/* Returns the file's descriptor, which stays open until it is given back, or a negative errno from opening the file.
 * Waits if all files that may be open are being read. */
static int pooled_file_take(struct pooled_file *file)
{
    const int fd = pooled_file_try(file);
    return fd == -EAGAIN ? take_closed(file) : fd;
}

static void pooled_file_give_back(struct pooled_file *file)
{
    atomic_fetch_sub(&file->state, 1);
    if (atomic_load(&pool.waiting) == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.freed);
    pthread_mutex_unlock(&pool.lock);
}

/* Close the file. No thread may be reading it. */
static void pooled_file_release(struct pooled_file *file)
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

/* ---- shards ---- */

struct shard_file {
    struct shard_source source; /* first, so that a pointer to the source is one to the file */
    struct pooled_file pooled;
    bool is_known;              /* the source's stamp has been set: by the first open, or by the name */
    int (*prove)(void *arg, int fd);    /* NULL, or what the first open has to pass (shard_file_defer) */
    void *prove_arg;
    atomic_bool is_proved;
};

static struct shard_stamp stamp_of(const struct stat *status)
{
    return (struct shard_stamp){
        .bytes = (uint64_t)status->st_size,
        .mtime_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
        .inode = status->st_ino,
        .ctime_ns = (int64_t)status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec,
    };
}

/* Open without blocking: without O_NONBLOCK, opening a pipe waits for a writer. */
static int open_to_read(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int check_kind(const struct stat *status)
{
    return S_ISREG(status->st_mode) ? 0 : S_ISDIR(status->st_mode) ? -EISDIR : -ESPIPE;
}

/* Record the file's identity at the first open, and compare it at later ones: another file with the same name has other
 * records at the offsets in the index. */
static int identify(int fd, struct shard_file *file)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    const int rc = check_kind(&status);
    if (rc < 0)
        return rc;
    const struct shard_stamp stamp = stamp_of(&status);
    if (file->is_known)
        return shard_stamp_equal(&stamp, &file->source.stamp) && status.st_dev == file->source.device ? 0 : -ESTALE;
    file->source.device = status.st_dev;
    file->source.stamp = stamp;
    return 0;
}

static int prove_first(int fd, struct shard_file *file)
{
    if (file->prove == NULL || atomic_load(&file->is_proved))
        return 0;
    const int rc = file->prove(file->prove_arg, fd);
    if (rc == 0)
        atomic_store(&file->is_proved, true);
    return rc;
}

static int open_pooled(struct pooled_file *pooled)
{
    struct shard_file *const file = (struct shard_file *)((char *)pooled - offsetof(struct shard_file, pooled));
    const int fd = open_to_read(file->source.path);
    int rc = fd < 0 ? fd : identify(fd, file);
    if (rc == 0)
        rc = prove_first(fd, file);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

/* Open the file once, to record its identity. */
static int open_first(struct shard_file *file)
{
    const int fd = pooled_file_take(&file->pooled);
    if (fd < 0)
        return fd;
    pooled_file_give_back(&file->pooled);
    file->is_known = true;
    return 0;
}

/* Find the identity of a file that is opened later. */
static int find_by_name(struct shard_file *file)
{
    struct stat status;
    if (stat(file->source.path, &status) < 0)
        return -errno;
    file->source.device = status.st_dev;
    file->source.stamp = stamp_of(&status);
    file->is_known = true;
    return check_kind(&status);
}

static int make_file(struct shard_file **file_out, const char *path)
{
    struct shard_file *const file = calloc(1, sizeof(*file));
    if (file == NULL)
        return -ENOMEM;
    file->source.ops = &shard_file_ops;
    file->source.path = path;
    const int rc = pooled_file_init(&file->pooled, open_pooled);
    if (rc < 0)
        free(file);
    else
        *file_out = file;
    return rc;
}

int shard_file_defer(struct shard_source **source_out, const char *path, int (*prove)(void *arg, int fd), void *arg)
{
    struct shard_file *file;
    int rc = make_file(&file, path);
    if (rc < 0)
        return rc;
    file->prove = prove;
    file->prove_arg = arg;
    rc = find_by_name(file);
    if (rc < 0)
        shard_source_close(&file->source);
    else
        *source_out = &file->source;
    return rc;
}

static int file_open(struct shard_source **source_out, const char *path)
{
    struct shard_file *file;
    int rc = make_file(&file, path);
    if (rc < 0)
        return rc;
    rc = open_first(file);
    if (rc < 0)
        shard_source_close(&file->source);
    else
        *source_out = &file->source;
    return rc;
}

static void file_close(struct shard_source *source)
{
    struct shard_file *const file = (struct shard_file *)source;
    pooled_file_release(&file->pooled);
    free(file);
}

static int file_size(struct shard_source *source, uint64_t *bytes_out)
{
    *bytes_out = source->stamp.bytes;
    return 0;
}

static ssize_t read_at(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    ssize_t got;
    do
        got = pread(fd, buffer, bytes, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t file_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    struct pooled_file *const pooled = &((struct shard_file *)source)->pooled;
    const int fd = pooled_file_take(pooled);
    if (fd < 0)
        return fd;
    const ssize_t got = read_at(fd, buffer, bytes, offset);
    pooled_file_give_back(pooled);
    return got;
}

static ssize_t file_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    int fd = open_to_read(source->path);
    while ((fd == -EMFILE || fd == -ENFILE) && descriptor_pool_make_room())
        fd = open_to_read(source->path);
    if (fd < 0)
        return fd;
    (void)posix_fadvise(fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    const ssize_t got = read_at(fd, buffer, bytes, offset);
    close(fd);
    return got;
}

static int file_try_descriptor(struct shard_source *source)
{
    return pooled_file_try(&((struct shard_file *)source)->pooled);
}

static void file_give_back_descriptor(struct shard_source *source)
{
    pooled_file_give_back(&((struct shard_file *)source)->pooled);
}

static int file_stamp(const struct shard_source *source, struct shard_stamp *stamp_out)
{
    struct stat status;
    if (stat(source->path, &status) < 0)
        return -errno;
    *stamp_out = stamp_of(&status);
    return 0;
}

const struct shard_source_ops shard_file_ops = {
    .open = file_open,
    .close = file_close,
    .size = file_size,
    .read = file_read,
    .read_afresh = file_read_afresh,
    .try_descriptor = file_try_descriptor,
    .give_back_descriptor = file_give_back_descriptor,
    .stamp = file_stamp,
    .is_plain = true,
};
