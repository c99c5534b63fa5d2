/* Writes the output of an export, in parts of any size. Called by the writers of all kinds of files. */
#include "tools/export/export_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/results/result_file.h"
#include "tools/lib/signals.h"

static bool is_stdout(const struct export_output *output)
{
    return strcmp(output->path, "-") == 0;
}

int export_output_init(struct export_output *output, const char *path, bool may_replace)
{
    *output = (struct export_output){ .path = path, .may_replace = may_replace, .fd = -1, .folder_fd = -1 };
    if (!is_stdout(output))
        return result_file_check(path, may_replace);
    output->fd = STDOUT_FILENO;
    if (!isatty(STDOUT_FILENO))
        return EXIT_CODE_OK;
    log_message(LOG_ERROR, "standard output is a terminal: name a file with -o FILE");
    return EXIT_CODE_OUTPUT;
}

static int output_fail(const struct export_output *output, int rc)
{
    log_message(LOG_ERROR, "%s: cannot be written: %s", is_stdout(output) ? "standard output" : output->path,
                strerror(-rc));
    return EXIT_CODE_OUTPUT;
}

/* Create the temporary file. 0 or a negative errno. */
static int output_create(struct export_output *output)
{
    if (folder_of_file(output->path, output->folder, sizeof(output->folder), &output->name) != 0)
        return -ENAMETOOLONG;
    output->folder_fd = open(output->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (output->folder_fd < 0)
        return -errno;
    const int fd = *output->name == '\0' ? -EISDIR : whole_file_make(output->folder_fd, output->name);
    output->fd = fd >= 0 ? fd : -1;
    return fd >= 0 ? 0 : fd;
}

int export_output_write(struct export_output *output, const void *data, size_t bytes)
{
    if (signals_exit_code() != 0)
        return signals_exit_code();
    int rc = output->fd >= 0 ? 0 : output_create(output);
    if (rc == 0)
        rc = file_write(output->fd, data, bytes);
    output->bytes += bytes;
    return rc == 0 ? EXIT_CODE_OK : output_fail(output, rc);
}

int export_output_finish(struct export_output *output)
{
    if (is_stdout(output))
        return EXIT_CODE_OK;
    int code = result_file_check(output->path, output->may_replace);    /* it may have appeared meanwhile */
    if (code != EXIT_CODE_OK)
        return code;
    int rc = file_sync(output->fd);
    if (close(output->fd) != 0 && rc == 0)
        rc = -errno;
    output->fd = -1;
    if (rc == 0)
        rc = whole_file_finish(output->folder_fd, output->name);
    code = rc == 0 ? EXIT_CODE_OK : output_fail(output, rc);
    if (rc == 0)
        output->name = NULL;
    return code;
}

void export_output_release(struct export_output *output)
{
    if (is_stdout(output))
        return;
    if (output->fd >= 0)
        close(output->fd);
    if (output->folder_fd >= 0 && output->name != NULL)
        whole_file_drop(output->folder_fd, output->name);
    if (output->folder_fd >= 0)
        close(output->folder_fd);
    output->fd = output->folder_fd = -1;
}
