/* Preloaded into a process (LD_PRELOAD): log the process's operations on files of its initial folder (op_log.h). Calls
 * are executed and logged one at a time, so that the log is in the order of the disk. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "board.h"
#include "op_log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;
static bool omits_syncs;    /* log no syncs: the test that this is detected */
static char root[PATH_MAX];
static size_t root_bytes;

struct path { char text[2 * PATH_MAX]; };

__attribute__((constructor)) static void open_log(void)
{
    const char *const path = getenv(BOARD_VARIABLE);
    if (path == NULL || getcwd(root, sizeof(root)) == NULL)
        return;
    root_bytes = strlen(root);
    omits_syncs = getenv("PIPETRAIN_OMIT_SYNCS") != NULL;
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC);
}

/* The path relative to the root; NULL if it is elsewhere. */
static const char *below_root(const char *path)
{
    if (strncmp(path, root, root_bytes) != 0 || (path[root_bytes] != '/' && path[root_bytes] != '\0'))
        return NULL;
    return path[root_bytes] == '/' ? path + root_bytes + 1 : path + root_bytes;
}

/* The path, relative to the root, of a name in an open folder; NULL if it is elsewhere. */
static const char *find_path(int folder, const char *name, struct path *path_out)
{
    char link[64], base[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
    const ssize_t bytes = folder == AT_FDCWD ? -1 : readlink(link, base, sizeof(base) - 1);
    if (bytes >= 0)
        base[bytes] = '\0';
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    if (*name == '/')
        snprintf(path_out->text, sizeof(path_out->text), "%s", name);
    else
        snprintf(path_out->text, sizeof(path_out->text), "%s%s%s", bytes >= 0 ? base : root, *name != '\0' ? "/" : "",
                 name);
    return below_root(path_out->text);
}

static void note(enum op op, const char *path, const char *other, const struct op_head *what, const void *bytes)
{
    struct op_head head = *what;
    head.op = (uint32_t)op;
    head.path_bytes = (uint32_t)strlen(path);
    head.other_bytes = (uint32_t)strlen(other);
    const struct iovec parts[] = { { &head, sizeof(head) }, { (void *)path, head.path_bytes },
                                   { (void *)other, head.other_bytes }, { (void *)bytes, head.bytes } };
    const ssize_t all = (ssize_t)(sizeof(head) + head.path_bytes + head.other_bytes + head.bytes);
    if (syscall(SYS_writev, log_fd, parts, 4) != all)
        abort();
}

/* Is it a regular file or a folder below the root, and not a standard stream? */
static bool find_inode(int fd, struct op_head *head_out, bool *is_folder_out)
{
    struct stat status;
    struct path path;
    *head_out = (struct op_head){ .op = 0 };
    if (log_fd < 0 || fd <= STDERR_FILENO || syscall(SYS_fstat, fd, &status) != 0)
        return false;
    *is_folder_out = S_ISDIR(status.st_mode);
    head_out->inode = status.st_ino;
    return (S_ISREG(status.st_mode) || *is_folder_out) && find_path(fd, "", &path) != NULL;
}

static int open_in(int folder, const char *name, int flags, mode_t mode)
{
    struct op_head head;
    struct path path;
    bool is_folder;
    pthread_mutex_lock(&lock);
    const bool is_new = (flags & O_CREAT) != 0 && syscall(SYS_faccessat, folder, name, F_OK) != 0;
    const int fd = (int)syscall(SYS_openat, folder, name, flags, mode);
    const bool changes = fd >= 0 && (is_new || (flags & O_TRUNC) != 0) && find_inode(fd, &head, &is_folder);
    const char *const place = changes ? find_path(folder, name, &path) : NULL;
    if (place != NULL && is_new)
        note(OP_CREATE, place, "", &head, NULL);
    if (place != NULL && (flags & O_TRUNC) != 0)
        note(OP_TRUNCATE, "", "", &head, NULL);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

int open(const char *name, int flags, ...)
{
    MODE_OF(flags)
    return open_in(AT_FDCWD, name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...)
{
    MODE_OF(flags)
    return open_in(folder, name, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    struct op_head head;
    bool is_folder;
    pthread_mutex_lock(&lock);
    const ssize_t written = syscall(SYS_write, fd, bytes, count);
    if (written > 0 && find_inode(fd, &head, &is_folder)) {
        head.bytes = (uint64_t)written;
        head.offset = (uint64_t)(syscall(SYS_lseek, fd, (off_t)0, SEEK_CUR) - written);
        note(OP_WRITE, "", "", &head, bytes);
    }
    pthread_mutex_unlock(&lock);
    return written;
}

int ftruncate(int fd, off_t bytes)
{
    struct op_head head;
    bool is_folder;
    pthread_mutex_lock(&lock);
    const int rc = (int)syscall(SYS_ftruncate, fd, bytes);
    if (rc == 0 && find_inode(fd, &head, &is_folder)) {
        head.offset = (uint64_t)bytes;
        note(OP_TRUNCATE, "", "", &head, NULL);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int sync_file(long call, int fd)
{
    struct op_head head;
    struct path path;
    bool is_folder;
    pthread_mutex_lock(&lock);
    const int rc = (int)syscall(call, fd);
    if (rc == 0 && !omits_syncs && find_inode(fd, &head, &is_folder))
        note(is_folder ? OP_SYNC_NAMES : OP_SYNC, is_folder ? find_path(fd, "", &path) : "", "", &head, NULL);
    pthread_mutex_unlock(&lock);
    return rc;
}

int fsync(int fd)
{
    return sync_file(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_file(SYS_fdatasync, fd);
}

/* A call that changes a name, or two. */
static int change(enum op op, long rc, int folder, const char *name, int other_folder, const char *other_name)
{
    const struct op_head head = { .op = 0 };
    struct path path, other;
    const char *const place = rc == 0 && log_fd >= 0 ? find_path(folder, name, &path) : NULL;
    const char *const target = op == OP_RENAME ? find_path(other_folder, other_name, &other) : "";
    if (place != NULL && target != NULL)
        note(op, place, target, &head, NULL);
    pthread_mutex_unlock(&lock);
    return (int)rc;
}

int renameat(int folder, const char *name, int other_folder, const char *other)
{
    pthread_mutex_lock(&lock);
    return change(OP_RENAME, syscall(SYS_renameat, folder, name, other_folder, other), folder, name, other_folder,
                  other);
}

int rename(const char *name, const char *other)
{
    return renameat(AT_FDCWD, name, AT_FDCWD, other);
}

int unlinkat(int folder, const char *name, int flags)
{
    pthread_mutex_lock(&lock);
    return change(OP_UNLINK, syscall(SYS_unlinkat, folder, name, flags), folder, name, AT_FDCWD, "");
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

int mkdir(const char *name, mode_t mode)
{
    pthread_mutex_lock(&lock);
    return change(OP_MKDIR, syscall(SYS_mkdir, name, mode), AT_FDCWD, name, AT_FDCWD, "");
}
