/* Writing .npy files row by row. The header is written last, because only then the number of rows is known. */
#include "tools/predict/rows_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/npy.h"
#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/results/result_file.h"

static int rows_file_failed(const struct rows_file *file, const char *path, int rc)
{
    if (file->out != NULL)
        log_message(LOG_ERROR, "%s: cannot be written after %llu rows: %s", path, (unsigned long long)file->rows,
                    strerror(-rc));
    else
        log_message(LOG_ERROR, "%s: cannot be written: %s", path, strerror(-rc));
    return rc == -ENOMEM ? EXIT_CODE_MEMORY : EXIT_CODE_OUTPUT;
}

static int open_folder(struct rows_file *file, const char *path)
{
    char folder[PATH_MAX];
    if (folder_of_file(path, folder, sizeof(folder), &file->name) != 0)
        return -ENAMETOOLONG;
    if (*file->name == '\0')
        return -EISDIR;
    file->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return file->folder_fd >= 0 ? 0 : -errno;
}

/* The header is written again at the end, which a file that is open for appending does not permit. */
static int open_temporary(struct rows_file *file)
{
    const int fd = whole_file_make(file->folder_fd, file->name);
    if (fd < 0)
        return fd;
    file->out = fcntl(fd, F_SETFL, 0) == 0 ? fdopen(fd, "w") : NULL;
    if (file->out != NULL)
        return 0;
    const int rc = -errno;
    close(fd);
    whole_file_drop(file->folder_fd, file->name);
    return rc;
}

static int make_unknown(struct rows_file *file)
{
    file->unknown = malloc(file->columns * sizeof(*file->unknown));
    for (uint32_t i = 0; file->unknown != NULL && i < file->columns; i++)
        file->unknown[i] = NAN;
    return file->unknown != NULL ? 0 : -ENOMEM;
}

static int write_header(struct rows_file *file)
{
    char header[NPY_ROWS_HEADER_BYTES];
    npy_rows_header(file->rows, file->columns, header);
    return fwrite(header, sizeof(header), 1, file->out) == 1 ? 0 : -errno;
}

int rows_file_open(struct rows_file *file, const char *path, bool may_replace, uint32_t columns)
{
    *file = (struct rows_file){ .may_replace = may_replace, .columns = columns };
    const int code = result_file_check(path, may_replace);
    if (code != 0)
        return code;
    int rc = make_unknown(file);
    if (rc == 0)
        rc = open_folder(file, path);
    if (rc != 0) {
        free(file->unknown);
        file->unknown = NULL;
        return rows_file_failed(file, path, rc);
    }
    file->path = path;
    rc = open_temporary(file);
    if (rc == 0)
        rc = write_header(file);
    return rc == 0 ? 0 : rows_file_failed(file, path, rc);
}

int rows_file_add(struct rows_file *file, const float *row)
{
    if (file->path == NULL)
        return 0;
    if (fwrite(row != NULL ? row : file->unknown, sizeof(*row), file->columns, file->out) != file->columns)
        return rows_file_failed(file, file->path, -errno);
    file->rows++;
    return 0;
}

static int complete(struct rows_file *file)
{
    int rc = fflush(file->out) == 0 && fseeko(file->out, 0, SEEK_SET) == 0 ? write_header(file) : -errno;
    if (rc == 0)
        rc = fflush(file->out) == 0 ? file_sync(fileno(file->out)) : -errno;
    return rc;
}

int rows_file_finish(struct rows_file *file)
{
    if (file->path == NULL)
        return 0;
    int code = result_file_check(file->path, file->may_replace);
    const int rc = code == 0 ? complete(file) : 0;
    if (rc != 0)
        code = rows_file_failed(file, file->path, rc);
    if (code != 0)
        return code;
    fclose(file->out);
    file->out = NULL;
    const int appeared = whole_file_finish(file->folder_fd, file->name);
    return appeared == 0 ? 0 : rows_file_failed(file, file->path, appeared);
}

void rows_file_drop(struct rows_file *file)
{
    if (file->path == NULL)
        return;
    if (file->out != NULL) {
        fclose(file->out);
        whole_file_drop(file->folder_fd, file->name);
    }
    close(file->folder_fd);
    free(file->unknown);
    *file = (struct rows_file){ .path = NULL };
}
