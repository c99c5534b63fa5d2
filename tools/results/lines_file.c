/* Files that grow a line at a time: metrics by main, damaged records by whichever decoder meets one. */
#include "tools/results/lines_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"

int lines_file_make(struct lines_file *lines, int directory_fd)
{
    lines->fd = whole_file_make(directory_fd, lines->name);
    return lines->fd < 0 ? lines->fd : 0;
}

uint64_t lines_file_bytes(const struct lines_file *lines)
{
    struct stat status;
    return lines->fd >= 0 && fstat(lines->fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}

/* The end of the last whole line in the first `bytes`. */
static uint64_t end_of_line(int fd, uint64_t bytes)
{
    char byte = '\n';
    while (bytes > 0 && pread(fd, &byte, 1, (off_t)bytes - 1) == 1 && byte != '\n')
        bytes--;
    return bytes;
}

int lines_file_go_on(struct lines_file *lines, int directory_fd, uint64_t bytes)
{
    lines->fd = openat(directory_fd, lines->name, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lines->fd < 0)
        return errno == ENOENT ? lines_file_make(lines, directory_fd) : -errno;
    lines->goes_on = true;
    const uint64_t there = lines_file_bytes(lines);
    if (there < bytes)
        log_message(LOG_RUN, "%s/%s is shorter than it was: some of its lines are lost", lines->folder, lines->name);
    const off_t whole = (off_t)end_of_line(lines->fd, there < bytes ? there : bytes);
    return ftruncate(lines->fd, whole) == 0 ? 0 : -errno;
}

void lines_file_close(struct lines_file *lines)
{
    if (lines->fd >= 0)
        close(lines->fd);
    lines->fd = -1;
}

/* The whole line with its end in one write; what is cut short would spoil the next line. */
static int append(const struct lines_file *lines, struct json *line)
{
    const off_t whole = lseek(lines->fd, 0, SEEK_END);
    if (json_text(line) == NULL || whole < 0)
        return whole < 0 ? -errno : -ENOMEM;
    line->text[line->bytes] = '\n';
    const int rc = file_write(lines->fd, line->text, line->bytes + 1);
    line->text[line->bytes] = '\0';
    if (rc != 0 && lseek(lines->fd, 0, SEEK_END) > whole && ftruncate(lines->fd, whole) != 0)
        log_message(LOG_RUN, "%s: the last line is cut short: %s", lines->name, strerror(errno));
    return rc;
}

void lines_file_add(struct lines_file *lines, struct json *line)
{
    const int rc = append(lines, line);
    if (rc != 0 && lines->failed == 0)
        log_message(LOG_ERROR, "%s/%s: %s: the run goes on without", lines->folder, lines->name, strerror(-rc));
    if (lines->failed == 0)
        lines->failed = rc;
    lines->lost += rc != 0;
}
