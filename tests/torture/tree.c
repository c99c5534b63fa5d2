/* Folders of trials. */
#include "tests/torture/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* nftw passes no argument to its callback. A process does one walk at a time. */
static struct {
    const char *root, *to;
    bool is_there;              /* the folder to copy to exists */
    int (*visit)(void *arg, const char *file);
    void *arg;
} walk;

static const char *below_root(const char *path)
{
    path += strlen(walk.root);
    return *path == '/' ? path + 1 : path;
}

static int copy_file(const char *from, const char *to)
{
    struct content content = content_read(from, "");
    const int fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0666);
    const bool is_copied = fd >= 0 && content.bytes != NULL &&
                           write(fd, content.bytes, content.count) == (ssize_t)content.count;
    if (fd >= 0)
        close(fd);
    content_release(&content);
    return is_copied ? 0 : -EIO;
}

static int copy_entry(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)at;
    char to[PATH_MAX];
    const char *const name = below_root(path);
    snprintf(to, sizeof(to), "%s%s%s", walk.to, *name != '\0' ? "/" : "", name);
    if (kind == FTW_D)
        return mkdir(to, 0777) == 0 || (walk.is_there && *name == '\0') ? 0 : -errno;
    return kind == FTW_F ? copy_file(path, to) : 0;
}

static int copy(const char *from, const char *to, bool is_there)
{
    walk.root = from;
    walk.to = to;
    walk.is_there = is_there;
    return nftw(from, copy_entry, 16, FTW_PHYS);
}

int tree_copy(const char *from, const char *to)
{
    return copy(from, to, false);
}

int tree_copy_into(const char *from, const char *to)
{
    return copy(from, to, true);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)status, (void)kind, (void)at;
    (void)remove(path);
    return 0;
}

void tree_remove(const char *path)
{
    (void)nftw(path, remove_entry, 16, FTW_PHYS | FTW_DEPTH);
}

static int visit_entry(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    (void)at;
    return kind == FTW_F && S_ISREG(status->st_mode) ? walk.visit(walk.arg, below_root(path)) : 0;
}

int tree_visit(const char *path, int (*visit)(void *arg, const char *file), void *arg)
{
    walk.root = path;
    walk.visit = visit;
    walk.arg = arg;
    return nftw(path, visit_entry, 16, FTW_PHYS);
}

struct content content_read(const char *folder, const char *file)
{
    char path[PATH_MAX];
    struct stat status;
    struct content content = { NULL, 0 };
    snprintf(path, sizeof(path), "%s%s%s", folder, *file != '\0' ? "/" : "", file);
    const int fd = open(path, O_RDONLY);
    if (fd >= 0 && fstat(fd, &status) == 0)
        content.bytes = malloc((size_t)status.st_size + 1);
    if (content.bytes != NULL) {
        const ssize_t got = read(fd, content.bytes, (size_t)status.st_size);
        content.count = got > 0 ? (size_t)got : 0;
        content.bytes[content.count] = '\0';
    }
    if (fd >= 0)
        close(fd);
    return content;
}

void content_release(struct content *content)
{
    free(content->bytes);
    *content = (struct content){ NULL, 0 };
}

bool content_equal(const struct content *a, const struct content *b)
{
    return a->bytes != NULL && b->bytes != NULL && a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

int text_write(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int rc = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
    close(fd);
    return rc;
}
