/* Reading files that may be damaged, growing, or something else altogether. */
#include "tools/report/run_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file_read.h"

/* Without waiting for who writes into a FIFO. */
static int open_regular(int directory_fd, const char *name, uint64_t *bytes_out)
{
    struct stat status;
    const int fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int rc = fstat(fd, &status) != 0 ? -errno : S_ISREG(status.st_mode) ? 0 : -EINVAL;
    if (rc == 0) {
        *bytes_out = (uint64_t)status.st_size;
        return fd;
    }
    close(fd);
    return rc;
}

static int read_text(int fd, uint64_t size, char **text_out, size_t *bytes_out)
{
    char *const text = size <= RUN_FILE_MAX ? malloc((size_t)size + 1) : NULL;
    if (text == NULL)
        return size <= RUN_FILE_MAX ? -ENOMEM : -EFBIG;
    const int rc = file_read_some(fd, 0, text, (size_t)size, bytes_out);
    if (rc < 0) {
        free(text);
        return rc;
    }
    text[*bytes_out] = '\0';
    *text_out = text;
    return 0;
}

int run_file_read(int directory_fd, const char *name, char **text_out, size_t *bytes_out)
{
    uint64_t size;
    const int fd = open_regular(directory_fd, name, &size);
    if (fd < 0)
        return fd;
    const int rc = read_text(fd, size, text_out, bytes_out);
    close(fd);
    return rc;
}

/* The next line into `text` of RUN_LINE_MAX + 1 bytes; false at the end of the file. */
static bool next_line(FILE *file, char *text, struct run_line *line)
{
    int byte = getc_unlocked(file);
    if (byte == EOF)
        return false;
    *line = (struct run_line){ .text = text, .number = line->number + 1 };
    for (; byte != EOF && byte != '\n'; byte = getc_unlocked(file)) {
        if (line->bytes < RUN_LINE_MAX)
            text[line->bytes++] = (char)byte;
        else
            line->is_cut = true;
    }
    text[line->bytes] = '\0';
    line->is_ended = byte == '\n';
    return true;
}

static int walk_lines(FILE *file, int (*line_of)(void *arg, const struct run_line *line), void *arg)
{
    char *const text = malloc(RUN_LINE_MAX + 1);
    struct run_line line = { .number = 0 };
    int rc = text != NULL ? 0 : -ENOMEM;
    while (rc == 0 && next_line(file, text, &line))
        rc = line.bytes > 0 ? line_of(arg, &line) : 0;
    if (rc == 0 && ferror(file) != 0)
        rc = -EIO;
    free(text);
    return rc;
}

int run_file_lines(int directory_fd, const char *name, int (*line_of)(void *arg, const struct run_line *line),
                   void *arg)
{
    uint64_t size;
    const int fd = open_regular(directory_fd, name, &size);
    FILE *const file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL) {
        const int rc = fd >= 0 ? -errno : fd;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    const int rc = walk_lines(file, line_of, arg);
    fclose(file);
    return rc;
}
