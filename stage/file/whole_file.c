/* Writing files atomically. Called by main when results are written. */
#include "stage/file/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"

#define MARK ".tmp."

struct temporary_name { char text[WHOLE_FILE_NAME_MAX + 32]; };

static struct temporary_name name_of(const char *file)
{
    struct temporary_name name;
    snprintf(name.text, sizeof(name.text), ".%.*s" MARK "%ld", (int)WHOLE_FILE_NAME_MAX, file, (long)getpid());
    return name;
}

static bool is_process(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

bool whole_file_is_temporary(const char *name, const char *file)
{
    const size_t bytes = strlen(file), mark = strlen(MARK);
    if (name[0] != '.' || strncmp(name + 1, file, bytes) != 0 || strncmp(name + 1 + bytes, MARK, mark) != 0)
        return false;
    return is_process(name + 1 + bytes + mark);
}

bool whole_file_is_any_temporary(const char *name, const char *file_begins)
{
    if (name[0] != '.' || strncmp(name + 1, file_begins, strlen(file_begins)) != 0)
        return false;
    const char *const mark = strstr(name + 1 + strlen(file_begins), MARK);
    return mark != NULL && is_process(mark + strlen(MARK));
}

int whole_file_make(int directory_fd, const char *file)
{
    const struct temporary_name name = name_of(file);
    unlinkat(directory_fd, name.text, 0);
    const int fd =
        openat(directory_fd, name.text, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd >= 0 ? fd : -errno;
}

int whole_file_fill(int fd, const struct file_part *parts, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = file_write_direct(fd, parts[i].data, parts[i].bytes);
    if (rc == 0)
        rc = file_sync(fd);
    return close(fd) != 0 && rc == 0 ? -errno : rc;
}

int whole_file_prepare(int directory_fd, const char *file, const struct file_part *parts, size_t count)
{
    const int fd = whole_file_make(directory_fd, file);
    if (fd < 0)
        return fd;
    const int rc = whole_file_fill(fd, parts, count);
    if (rc != 0)
        whole_file_drop(directory_fd, file);
    return rc;
}

int whole_file_appear(int directory_fd, const char *file)
{
    const struct temporary_name name = name_of(file);
    return renameat(directory_fd, name.text, directory_fd, file) == 0 ? 0 : -errno;
}

void whole_file_drop(int directory_fd, const char *file)
{
    const struct temporary_name name = name_of(file);
    unlinkat(directory_fd, name.text, 0);
}

int whole_file_sync_names(int directory_fd)
{
    const int rc = file_sync(directory_fd);
    return rc == -EINVAL ? 0 : rc;
}

int whole_file_finish(int directory_fd, const char *file)
{
    const int rc = whole_file_appear(directory_fd, file);
    if (rc != 0)
        whole_file_drop(directory_fd, file);
    return rc == 0 ? whole_file_sync_names(directory_fd) : rc;
}

int whole_file_write(int directory_fd, const char *file, const struct file_part *parts, size_t count)
{
    const int rc = whole_file_prepare(directory_fd, file, parts, count);
    return rc == 0 ? whole_file_finish(directory_fd, file) : rc;
}
