/* Files of text, read whole. */
#include "tools/config/config_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the next read, 0 at the end, or a negative errno: -EAGAIN (try again), -ETIMEDOUT from a pipe or
 * a terminal that gives nothing. */
static ssize_t read_some(int fd, char *text, size_t room)
{
    struct pollfd there = { .fd = fd, .events = POLLIN };
    const int ready = poll(&there, 1, CONFIG_TEXT_WAIT_SECONDS * 1000);
    if (ready == 0)
        return -ETIMEDOUT;
    const ssize_t bytes = ready < 0 ? -1 : read(fd, text, room);
    return bytes >= 0 ? bytes : errno == EINTR ? -EAGAIN : -errno;
}

/* As much of it as there is room for. */
static int read_all(int fd, char *text, size_t room, size_t *bytes_out)
{
    ssize_t bytes = -EAGAIN;
    *bytes_out = 0;
    while ((bytes > 0 || bytes == -EAGAIN) && *bytes_out < room) {
        bytes = read_some(fd, text + *bytes_out, room - *bytes_out);
        *bytes_out += bytes > 0 ? (size_t)bytes : 0;
    }
    return bytes < 0 ? (int)bytes : 0;
}

/* The whole file, malloc'ed. 0, or a negative errno (-EFBIG: over `most`). A pipe that nobody writes to is opened
 * without waiting. */
static int read_file(const char *path, size_t most, char **text_out, size_t *bytes_out)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char *text = malloc(most + 1);
    int rc = text == NULL ? -ENOMEM : read_all(fd, text, most + 1, bytes_out);
    if (rc == 0 && *bytes_out > most)
        rc = -EFBIG;
    close(fd);
    if (rc != 0) {
        free(text);
        return rc;
    }
    *text_out = text;
    return 0;
}

static void report_unread(const char *path, int rc, size_t most, const char *what, struct problems *problems)
{
    if (rc == -EFBIG)
        problems_add(problems, path, "larger than %zu bytes, which is no %s", most, what);
    else if (rc == -ETIMEDOUT)
        problems_add(problems, path, "nothing came from it for %d s, and it has not ended", CONFIG_TEXT_WAIT_SECONDS);
    else if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: cannot be read: %s", path, strerror(-rc));
    else
        problems_add(problems, path, "cannot be read: %s", strerror(-rc));
}

int config_text_read(const char *path, size_t most, const char *what, char **text_out, size_t *bytes_out,
                   struct problems *problems)
{
    const int rc = read_file(path, most, text_out, bytes_out);
    if (rc == 0)
        return 0;
    report_unread(path, rc, most, what, problems);
    return rc == -ENOMEM ? rc : -ENODATA;
}
