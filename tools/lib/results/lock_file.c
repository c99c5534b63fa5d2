/* The file has one line, "process 4711 on HOST since 2026-11-24T20:42:15Z". Called by run_directory.c and
 * output_locks.c. */
#include "tools/lib/results/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "stage/file/file.h"

#define HOST_BYTES 65u
#define TEXT_BYTES 160u

/* The only characters in host names; nothing else may get into messages. */
#define HOST_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static void find_host(char host[HOST_BYTES])
{
    if (gethostname(host, HOST_BYTES) != 0 || host[0] == '\0')
        strcpy(host, "localhost");
    host[HOST_BYTES - 1] = '\0';
    host[strspn(host, HOST_CHARACTERS)] = '\0';
}

static void clear_holder(int fd)
{
    if (ftruncate(fd, 0) == 0)
        (void)lseek(fd, 0, SEEK_SET);
}

/* Write the line for this process, which holds the lock of the file. Errors are ignored: the lock is valid without the
 * line. */
static void write_holder(int fd)
{
    char host[HOST_BYTES], text[TEXT_BYTES];
    const time_t now = time(NULL);
    struct tm parts;
    clear_holder(fd);
    if (gmtime_r(&now, &parts) == NULL)
        return;
    find_host(host);
    int length = snprintf(text, sizeof(text), "process %ld on %s since ", (long)getpid(), host);
    length += (int)strftime(text + length, sizeof(text) - (size_t)length, "%Y-%m-%dT%H:%M:%SZ\n", &parts);
    if (file_write(fd, text, (size_t)length) != 0)
        clear_holder(fd);
}

/* Write the line of the lock's holder, for a message; "" if the file has other contents. */
static void describe_holder(int fd, char *problem_out, size_t problem_size)
{
    char text[TEXT_BYTES], host[HOST_BYTES], date[11], hour[9], end;
    long process;
    const ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
    if (bytes <= 0)
        return;
    text[bytes] = '\0';
    if (sscanf(text, "process %19ld on %64[a-zA-Z0-9._-] since %10[0-9-]T%8[0-9:]Z%c", &process, host, date, hour,
               &end) == 5 && end == '\n')
        snprintf(problem_out, problem_size, "another run is writing here: process %ld on %s since %s %s UTC", process,
                 host, date, hour);
}

static int check_mode(const char *name, mode_t mode, char *problem_out, size_t problem_size)
{
    const char *const kind = file_kind(mode);
    if (kind == NULL)
        return 0;
    snprintf(problem_out, problem_size, "%s is %s, not a regular file", name, kind);
    return S_ISLNK(mode) ? -ELOOP : -EINVAL;
}

int lock_file_check_kind(int folder_fd, const char *name, char *problem_out, size_t problem_size)
{
    struct stat status;
    if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return check_mode(name, status.st_mode, problem_out, problem_size);
    return errno == ENOENT ? 0 : -errno;
}

/* Check the lock file. One with a second name may be anybody's, or the lock of another folder, so it is not used or
 * written. */
static int check_file(int fd, const char *name, char *problem_out, size_t problem_size)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (S_ISREG(status.st_mode) && status.st_nlink > 1) {
        snprintf(problem_out, problem_size, "%s has %lu hard links, as after cp -al: remove it from this folder", name,
                 (unsigned long)status.st_nlink);
        return -EMLINK;
    }
    return check_mode(name, status.st_mode, problem_out, problem_size);
}

int lock_file_open(struct lock_file *lock, int folder_fd, const char *name, bool only_tries, char *problem_out,
                   size_t problem_size)
{
    const int makes = only_tries ? 0 : O_CREAT;
    *lock = (struct lock_file){
        .fd = openat(folder_fd, name, O_RDWR | makes | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666) };
    if (lock->fd < 0 && errno == ENOENT)
        return only_tries ? 0 : -ESTALE;
    if (lock->fd < 0) {
        const int why = -errno, rc = lock_file_check_kind(folder_fd, name, problem_out, problem_size);
        return rc != 0 ? rc : why;
    }
    int rc = check_file(lock->fd, name, problem_out, problem_size);
    if (rc == 0)
        rc = file_lock(lock->fd);
    lock->is_locked = rc == 0;
    if (rc == -EWOULDBLOCK)
        describe_holder(lock->fd, problem_out, problem_size);
    struct stat status;
    if (rc == 0 && fstat(lock->fd, &status) == 0 && status.st_nlink == 0)
        return -ESTALE;
    if (rc == 0 && !only_tries)
        write_holder(lock->fd);
    return rc;
}

void lock_file_close(struct lock_file *lock, bool only_tries)
{
    if (lock->is_locked && !only_tries)
        clear_holder(lock->fd);
    if (lock->fd >= 0)
        close(lock->fd);
    *lock = (struct lock_file){ .fd = -1 };
}
