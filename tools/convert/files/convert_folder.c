/* The converter of images in folders, one for each class. The tree is walked once: every file is opened, its
 * first bytes are looked at, and its path and size are kept. It is read when its record is written. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file_read.h"
#include "tools/convert/convert.h"
#include "tools/convert/files/image_set.h"

#define DEPTH_MAX 32u
#define PATH_BYTES 4096u

struct folder {
    struct image_set images;
    int fd;
    const struct convert_options *options;
    char path[PATH_BYTES];          /* of what is looked at, from the input on */
    struct { dev_t device; ino_t inode; } above[DEPTH_MAX + 1];     /* the folders that it lies in, by depth */
};

static int visit_folder(struct folder *folder, int fd, size_t length, unsigned depth);

static int no_memory(const struct folder *folder)
{
    stop_fail(folder->images.stop, EXIT_CODE_MEMORY, "%s: no memory for the list of its images", folder->images.input);
    return -ENOMEM;
}

/* The system's error for what the path names: of the host, or one of the files that cannot be used. */
static int refuse(struct folder *folder, int error)
{
    return image_set_refuse(&folder->images, folder->path[0] != '\0' ? folder->path : ".", error);
}

static int read_head(void *arg, uint8_t *out, size_t bytes)
{
    return file_read_at(*(const int *)arg, 0, out, bytes);
}

static int add_file(struct folder *folder, int fd, uint64_t bytes)
{
    const struct image_file file = { .bytes = (uint32_t)bytes };
    bool is_image;

    int rc = image_choice_take(&folder->images.choice, folder->path, bytes, read_head, &fd, &is_image);
    if (rc == 0 && is_image)
        rc = image_list_add(&folder->images.list, folder->path, &file);
    return rc < 0 ? no_memory(folder) : 0;
}

static int add_folder(struct folder *folder, int fd, size_t length, unsigned depth)
{
    const struct image_file entry = { .is_folder = true };

    if (image_list_add(&folder->images.list, folder->path, &entry) < 0)
        return no_memory(folder);
    return visit_folder(folder, fd, length, depth + 1);
}

/* What the path names, open as fd. */
static int visit_entry(struct folder *folder, int fd, size_t length, unsigned depth)
{
    struct stat stat;

    if (fstat(fd, &stat) != 0)
        return refuse(folder, errno);
    if (S_ISDIR(stat.st_mode))
        return add_folder(folder, fd, length, depth);
    if (S_ISREG(stat.st_mode))
        return add_file(folder, fd, (uint64_t)stat.st_size);
    image_choice_refuse(&folder->images.choice, folder->path, "is no regular file");
    return 0;
}

/* Links are followed. Without O_NONBLOCK a pipe without a writer would hold the program here. */
static int open_entry(struct folder *folder, int directory_fd, const char *name, size_t length, unsigned depth)
{
    const size_t bytes = strlen(name);

    if (atomic_load(folder->options->interrupted))
        return -ECANCELED;
    if (length + bytes + 2 > sizeof(folder->path)) {
        image_choice_refuse(&folder->images.choice, folder->path, "holds a path of over 4095 bytes");
        return 0;
    }
    if (length > 0)
        folder->path[length++] = '/';
    memcpy(folder->path + length, name, bytes + 1);
    const int fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return refuse(folder, errno);
    const int rc = visit_entry(folder, fd, length + bytes, depth);
    close(fd);
    return rc;
}

static int visit_entries(struct folder *folder, DIR *entries, size_t length, unsigned depth)
{
    const struct dirent *entry;

    while ((errno = 0, entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;               /* hidden, or the folder itself */
        const int rc = open_entry(folder, dirfd(entries), entry->d_name, length, depth);
        folder->path[length] = '\0';
        if (rc < 0)
            return rc;
    }
    return errno != 0 ? refuse(folder, errno) : 0;
}

/* Whether a folder, which is noted at its depth, is none of those it lies in: a link may lead back. */
static bool is_new(struct folder *folder, const struct stat *stat, unsigned depth)
{
    unsigned i = 0;

    while (i < depth && (folder->above[i].device != stat->st_dev || folder->above[i].inode != stat->st_ino))
        i++;
    folder->above[depth].device = stat->st_dev;
    folder->above[depth].inode = stat->st_ino;
    return i == depth;
}

static int visit_folder(struct folder *folder, int fd, size_t length, unsigned depth)
{
    struct stat stat;

    if (depth > DEPTH_MAX) {
        image_choice_refuse(&folder->images.choice, folder->path, "lies over 32 folders deep");
        return 0;
    }
    if (fstat(fd, &stat) != 0)
        return refuse(folder, errno);
    if (!is_new(folder, &stat, depth)) {
        image_choice_refuse(&folder->images.choice, folder->path, "is a link back to a folder that it lies in");
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

static int read_image(const struct image_set *set, const struct image_file *file, uint8_t *out)
{
    const struct folder *folder = set->arg;
    const int fd = openat(folder->fd, image_list_path(&set->list, file), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    const int rc = file_read_whole(fd, out, file->bytes);
    close(fd);
    return rc;
}

/* Cut the last name off an absolute path; false of the root. */
static bool go_up(char *path)
{
    char *const slash = strrchr(path, '/');

    if (slash == NULL || path[1] == '\0')
        return false;
    slash[slash == path] = '\0';
    return true;
}

/* The folder that is there of a path whose last parts may still have to be made; NULL without memory or such. */
static char *existing_folder(const char *path)
{
    char *text = path[0] == '/' ? strdup(path) : NULL, *found;

    if (path[0] != '/' && asprintf(&text, "./%s", path) < 0)
        return NULL;
    while (text != NULL && (found = realpath(text, NULL)) == NULL && go_up(text))
        ;
    const bool is_found = text != NULL && found != NULL;
    free(text);
    return is_found ? found : NULL;
}

/* Is the output the folder that is converted, or in it? What cannot be told, writing it will tell. */
static bool holds_output(const struct folder *folder, const char *output)
{
    struct stat input, above;
    char *const path = existing_folder(output);
    bool holds = false;

    if (path == NULL || fstat(folder->fd, &input) != 0) {
        free(path);
        return false;
    }
    do
        holds = stat(path, &above) == 0 && above.st_dev == input.st_dev && above.st_ino == input.st_ino;
    while (!holds && go_up(path));
    free(path);
    return holds;
}

static int find_images(struct folder *folder)
{
    struct image_set *images = &folder->images;

    folder->fd = open(images->input, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        const int rc = -errno;
        stop_fail(images->stop, exit_code_of(rc, EXIT_CODE_DATA), "%s: cannot open the folder: %s", images->input,
                  exit_cause(rc));
        return rc;
    }
    if (holds_output(folder, folder->options->output)) {
        stop_fail(images->stop, EXIT_CODE_USAGE, "%s: lies in %s, which is converted: choose a folder beside it",
                  folder->options->output, images->input);
        return -EINVAL;
    }
    int rc = visit_folder(folder, folder->fd, 0, 0);
    if (rc == 0)
        rc = image_choice_end(&images->choice, images->input, images->stop);
    if (rc == 0)
        rc = image_layout_find(&images->layout, &images->list, images->input, images->stop);
    return rc;
}

static int folder_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct folder *folder = calloc(1, sizeof(*folder));

    conversion->state = folder;
    if (folder == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory");
        return -ENOMEM;
    }
    folder->fd = -1;
    folder->options = options;
    folder->images.input = options->inputs[0];
    folder->images.stop = stop;
    image_choice_begin(&folder->images.choice, false, 0);
    folder->images.read = read_image;
    folder->images.arg = folder;
    conversion->origin = "images in folders";
    const int rc = find_images(folder);
    if (rc == 0)
        image_set_describe(&folder->images, conversion);
    return rc;
}

static void folder_release(struct conversion *conversion)
{
    struct folder *folder = conversion->state;

    if (folder == NULL)
        return;
    image_set_release(&folder->images);
    if (folder->fd >= 0)
        close(folder->fd);
    free(folder);
}

const struct converter convert_folder = {
    .name = "folder",
    .summary = "JPEG and PNG images, a folder for each class: DIR/CLASS or DIR/train/CLASS",
    .inputs = "DIR",
    .input_count_least = 1,
    .input_count_most = 1,
    .takes = CONVERT_IMAGES | CONVERT_QUALITY,
    .prepare = folder_prepare,
    .release = folder_release,
};
