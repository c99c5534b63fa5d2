/* Preloaded into a process (LD_PRELOAD): count its calls by kind, and make one of them, or all from one on, fail, do
 * less than asked, or kill the process, as the board orders. Streams are opened over functions of this file, because
 * the C library's own do not call read and write through it. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "board.h"

/* The C library's own functions, by names that cannot be replaced. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

struct span { uintptr_t begin, end; };

static struct board *board;
static bool has_begun;      /* main has begun: calls of the dynamic loader do not count */
static struct span program, c_library, ours;

static bool is_within(struct span span, uintptr_t at)
{
    return at >= span.begin && at < span.end;
}

static struct span span_of(const struct dl_phdr_info *info)
{
    struct span span = { UINTPTR_MAX, 0 };
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        const uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        span.begin = begin < span.begin ? begin : span.begin;
        span.end = end > span.end ? end : span.end;
    }
    return span;
}

/* The first object is the program. */
static int find_spans(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    const struct span span = span_of(info);
    if (program.end == 0)
        program = span;
    if (is_within(span, (uintptr_t)dlsym(RTLD_NEXT, "getpid")))
        c_library = span;
    if (is_within(span, (uintptr_t)find_spans))
        ours = span;
    return 0;
}

__attribute__((constructor)) static void open_board(void)
{
    const char *const path = getenv(BOARD_VARIABLE);
    const int fd = path != NULL ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    dl_iterate_phdr(find_spans, NULL);
    void *const memory =
        (void *)syscall(SYS_mmap, NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)0);
    syscall(SYS_close, fd);
    if (memory != MAP_FAILED)
        board = memory;
}

/* Count a call. Returns what to do: 0 to execute it, an errno to fail with, or ACTION_SHORT. */
static int judge(enum call call, const void *from)
{
    if (board == NULL || !has_begun)
        return 0;
    const uintptr_t at = (uintptr_t)from;
    const bool is_programs = is_within(program, at) || is_within(c_library, at) || is_within(ours, at);
    const enum caller caller = is_programs ? CALLER_PROGRAM : CALLER_LIBRARY;
    const uint32_t number = atomic_fetch_add(&board->calls[call][caller], 1) + 1;
    const struct order *const order = &board->order;
    if (order->number == 0 || order->call != call || order->caller != caller ||
        (order->lasting ? number < order->number : number != order->number))
        return 0;
    atomic_fetch_add(&board->fired, 1);
    if (order->action != ACTION_KILL)
        return order->action;
    syscall(SYS_kill, (pid_t)syscall(SYS_getpid), SIGKILL);
    for (;;)
        syscall(SYS_pause);
}

/* Calls count from the program's main on. */

static int (*programs_main)(int, char **, char **);

static int begin_main(int argc, char **argv, char **environment)
{
    has_begun = true;
    return programs_main(argc, argv, environment);
}

typedef int start_fn(int (*begin)(int, char **, char **), int argc, char **argv, void (*init)(void),
                     void (*fini)(void), void (*loader_fini)(void), void *stack_end);
start_fn __libc_start_main;
int __libc_start_main(int (*begin)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    start_fn *const next = (start_fn *)dlsym(RTLD_NEXT, "__libc_start_main");
    programs_main = begin;
    return next(begin_main, argc, argv, init, fini, loader_fini, stack_end);
}

/* Find the next function of this name, once. */
#define NEXT(name) \
    static __typeof__(name) *next; \
    if (next == NULL) \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* Return `failure` with an errno, if that is ordered. */
#define FAIL_OR(kind, failure) \
    do { \
        const int error = judge(kind, __builtin_return_address(0)); \
        if (error > 0) { \
            errno = error; \
            return failure; \
        } \
    } while (0)

#define REPLACE(kind, type, failure, name, parameters, arguments) \
    type name parameters; \
    type name parameters \
    { \
        NEXT(name); \
        FAIL_OR(kind, failure); \
        return next arguments; \
    }

/* Memory. A sanitizer has these functions of its own. */
#ifndef HAVE_SANITIZER

void *malloc(size_t bytes)
{
    FAIL_OR(CALL_MEMORY, NULL);
    return __libc_malloc(bytes);
}

void *calloc(size_t members, size_t bytes)
{
    FAIL_OR(CALL_MEMORY, NULL);
    return __libc_calloc(members, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    FAIL_OR(CALL_MEMORY, NULL);
    return __libc_realloc(memory, bytes);
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes)
{
    FAIL_OR(CALL_MEMORY, NULL);
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    FAIL_OR(CALL_MEMORY, NULL);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory_out, size_t alignment, size_t bytes)
{
    const int error = judge(CALL_MEMORY, __builtin_return_address(0));
    if (error > 0)
        return error;
    void *const memory = __libc_memalign(alignment, bytes);
    if (memory == NULL)
        return ENOMEM;
    *memory_out = memory;
    return 0;
}

#endif

REPLACE(CALL_MMAP, void *, MAP_FAILED, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
        (at, bytes, protection, flags, fd, offset))

/* Threads. */

int pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*loop)(void *), void *arg)
{
    NEXT(pthread_create);
    const int error = judge(CALL_THREAD, __builtin_return_address(0));
    return error > 0 ? error : next(id, attributes, loop, arg);
}

/* Descriptors. */

static mode_t mode_of(int flags, va_list arguments)
{
    return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    FAIL_OR(CALL_OPEN, -1);
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    FAIL_OR(CALL_OPEN, -1);
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

REPLACE(CALL_OPEN, DIR *, NULL, opendir, (const char *path), (path))
REPLACE(CALL_OPEN, int, -1, eventfd, (unsigned first, int flags), (first, flags))
REPLACE(CALL_OPEN, int, -1, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
REPLACE(CALL_STAT, int, -1, stat, (const char *path, struct stat *status), (path, status))
REPLACE(CALL_STAT, int, -1, lstat, (const char *path, struct stat *status), (path, status))
REPLACE(CALL_STAT, int, -1, fstat, (int fd, struct stat *status), (fd, status))
REPLACE(CALL_STAT, int, -1, fstatat, (int folder, const char *path, struct stat *status, int flags),
        (folder, path, status, flags))
REPLACE(CALL_STAT, int, -1, statvfs, (const char *path, struct statvfs *status), (path, status))
REPLACE(CALL_STAT, int, -1, fstatvfs, (int fd, struct statvfs *status), (fd, status))
REPLACE(CALL_STAT, int, -1, access, (const char *path, int mode), (path, mode))
REPLACE(CALL_STAT, int, -1, faccessat, (int folder, const char *path, int mode, int flags),
        (folder, path, mode, flags))
REPLACE(CALL_SYNC, int, -1, fsync, (int fd), (fd))
REPLACE(CALL_SYNC, int, -1, fdatasync, (int fd), (fd))
REPLACE(CALL_RENAME, int, -1, rename, (const char *from, const char *to), (from, to))
REPLACE(CALL_RENAME, int, -1, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
REPLACE(CALL_UNLINK, int, -1, unlink, (const char *path), (path))
REPLACE(CALL_UNLINK, int, -1, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
REPLACE(CALL_LOCK, int, -1, flock, (int fd, int operation), (fd, operation))
REPLACE(CALL_MKDIR, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))

/* Reads and writes of regular files, except standard streams. A short call moves half of the bytes, at least one. */

#define UNUSED __attribute__((unused))

static bool is_file(int fd)
{
    struct stat status;
    return fd > STDERR_FILENO && syscall(SYS_fstat, fd, &status) == 0 && S_ISREG(status.st_mode);
}

#define MOVE(kind, name, parameters, system_call, ...) \
    ssize_t name parameters; \
    ssize_t name parameters \
    { \
        const int action = is_file(fd) ? judge(kind, __builtin_return_address(0)) : 0; \
        if (action > 0) { \
            errno = action; \
            return -1; \
        } \
        if (action == ACTION_SHORT && bytes > 1) \
            bytes /= 2; \
        return syscall(system_call, fd, buffer, bytes, ##__VA_ARGS__); \
    }

MOVE(CALL_READ, read, (int fd, void *buffer, size_t bytes), SYS_read)
MOVE(CALL_READ, __read_chk, (int fd, void *buffer, size_t bytes, UNUSED size_t room), SYS_read)
MOVE(CALL_WRITE, write, (int fd, const void *buffer, size_t bytes), SYS_write)
MOVE(CALL_PREAD, pread, (int fd, void *buffer, size_t bytes, off_t offset), SYS_pread64, offset)
MOVE(CALL_PREAD, __pread_chk, (int fd, void *buffer, size_t bytes, off_t offset, UNUSED size_t room), SYS_pread64,
     offset)

/* Streams over descriptors. A stream treats EINTR as a failure; as no signal interrupts the programs in reality, it is
 * handled here. */

static ssize_t stream_read(void *cookie, char *buffer, size_t bytes)
{
    ssize_t got;
    do
        got = read((int)(intptr_t)cookie, buffer, bytes);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Such a function returns 0 when it fails. */
static ssize_t stream_write(void *cookie, const char *buffer, size_t bytes)
{
    size_t written = 0;
    while (written < bytes) {
        const ssize_t now = write((int)(intptr_t)cookie, buffer + written, bytes - written);
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0)
            break;
        written += (size_t)now;
    }
    return (ssize_t)written;
}

static int stream_seek(void *cookie, off64_t *offset, int whence)
{
    const off_t at = lseek((int)(intptr_t)cookie, (off_t)*offset, whence);
    if (at < 0)
        return -1;
    *offset = at;
    return 0;
}

/* The open streams, for fileno. The next one may be at the address of one that was closed, with another descriptor. */
#define STREAMS_MAX 64u
static struct { _Atomic(FILE *) stream; int fd; } streams[STREAMS_MAX];

static int stream_close(void *cookie)
{
    const int fd = (int)(intptr_t)cookie;
    atomic_store(&streams[fd % (int)STREAMS_MAX].stream, NULL);
    return close(fd);
}

static FILE *stream_over(int fd, const char *mode)
{
    const cookie_io_functions_t functions = { stream_read, stream_write, stream_seek, stream_close };
    FILE *const stream = fopencookie((void *)(intptr_t)fd, mode, functions);
    if (stream != NULL) {
        streams[fd % (int)STREAMS_MAX].fd = fd;
        atomic_store(&streams[fd % (int)STREAMS_MAX].stream, stream);
    }
    return stream;
}

FILE *fdopen(int fd, const char *mode)
{
    return stream_over(fd, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FAIL_OR(CALL_OPEN, NULL);
    const int flags = strchr(mode, 'r') != NULL ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    FILE *const stream = stream_over(fd, mode);
    if (stream == NULL)
        close(fd);
    return stream;
}

int fileno(FILE *stream)
{
    for (uint32_t i = 0; i < STREAMS_MAX; i++)
        if (atomic_load(&streams[i].stream) == stream)
            return streams[i].fd;
    NEXT(fileno);
    return next(stream);
}
