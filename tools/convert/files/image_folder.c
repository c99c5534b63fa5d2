/* A walk over a folder: every file is opened, its first bytes are looked at, and its path and size are kept. Called by
 * the main thread of the programs. */
#include "tools/convert/files/image_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/stop.h"

static int visit_folder(struct image_folder *folder, int fd, size_t length, unsigned depth);

/* An error of the system for what the path names: the file cannot be used, or the system has no more to give. */
static int refuse(struct image_folder *folder, int error)
{
    if (exit_code_of(-error, EXIT_CODE_DATA) != EXIT_CODE_DATA)
        return -error;
    image_choice_refuse(folder->choice, folder->path[0] != '\0' ? folder->path : ".", strerror(error));
    return 0;
}

static int read_head(void *arg, uint8_t *out, size_t bytes)
{
    return file_read_at(*(const int *)arg, 0, out, bytes);
}

static int add_file(struct image_folder *folder, int fd, uint64_t bytes)
{
    const struct image_file file = { .bytes = (uint32_t)bytes };
    bool is_image;

    const int rc = image_choice_take(folder->choice, folder->path, bytes, read_head, &fd, &is_image);
    return rc == 0 && is_image ? image_list_add(folder->list, folder->path, &file) : rc;
}

static int add_folder(struct image_folder *folder, int fd, size_t length, unsigned depth)
{
    const struct image_file entry = { .is_folder = true };

    const int rc = image_list_add(folder->list, folder->path, &entry);
    return rc < 0 ? rc : visit_folder(folder, fd, length, depth + 1);
}

/* What the path names, open as fd. */
static int visit_entry(struct image_folder *folder, int fd, size_t length, unsigned depth)
{
    struct stat stat;

    if (fstat(fd, &stat) != 0)
        return refuse(folder, errno);
    if (S_ISDIR(stat.st_mode))
        return add_folder(folder, fd, length, depth);
    if (S_ISREG(stat.st_mode))
        return add_file(folder, fd, (uint64_t)stat.st_size);
    image_choice_refuse(folder->choice, folder->path, "is no regular file");
    return 0;
}

/* Links are followed. Without O_NONBLOCK a pipe without a writer would hold the program here. */
static int open_entry(struct image_folder *folder, int directory_fd, const char *name, size_t length, unsigned depth)
{
    const size_t bytes = strlen(name);

    if (folder->interrupted != NULL && atomic_load(folder->interrupted))
        return -ECANCELED;
    if (length + bytes + 2 > sizeof(folder->path)) {
        image_choice_refuse(folder->choice, folder->path, "holds a path of over 4095 bytes");
        return 0;
    }
    if (length > 0)
        folder->path[length++] = '/';
    memcpy(folder->path + length, name, bytes + 1);
    const int fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return refuse(folder, errno);
    const int rc = visit_entry(folder, fd, length + bytes, depth);
    close(fd);
    return rc;
}

static int visit_entries(struct image_folder *folder, DIR *entries, size_t length, unsigned depth)
{
    const struct dirent *entry;

    while ((errno = 0, entry = readdir(entries)) != NULL) {
        if (image_choice_is_hidden(entry->d_name))
            continue;               /* also the folder itself and the one above */
        const int rc = open_entry(folder, dirfd(entries), entry->d_name, length, depth);
        folder->path[length] = '\0';
        if (rc < 0)
            return rc;
    }
    return errno != 0 ? refuse(folder, errno) : 0;
}

/* Whether a folder, which is noted at its depth, is none of those it lies in: a link may lead back. */
static bool is_new(struct image_folder *folder, const struct stat *stat, unsigned depth)
{
    unsigned i = 0;

    while (i < depth && (folder->above[i].device != stat->st_dev || folder->above[i].inode != stat->st_ino))
        i++;
    folder->above[depth].device = stat->st_dev;
    folder->above[depth].inode = stat->st_ino;
    return i == depth;
}

static int visit_folder(struct image_folder *folder, int fd, size_t length, unsigned depth)
{
    struct stat stat;

    if (depth > IMAGE_FOLDER_DEPTH_MAX) {
        image_choice_refuse(folder->choice, folder->path, "lies over 32 folders deep");
        return 0;
    }
    if (fstat(fd, &stat) != 0)
        return refuse(folder, errno);
    if (!is_new(folder, &stat, depth)) {
        image_choice_refuse(folder->choice, folder->path, "is a link back to a folder that it lies in");
        return 0;
    }
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR *entries = own < 0 ? NULL : fdopendir(own);
    if (entries == NULL) {
        const int error = errno;
        if (own >= 0)
            close(own);
        return refuse(folder, error);
    }
    const int rc = visit_entries(folder, entries, length, depth);
    closedir(entries);
    return rc;
}

int image_folder_walk(struct image_folder *folder, int fd)
{
    return visit_folder(folder, fd, 0, 0);
}
