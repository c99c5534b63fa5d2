/* The output of an export: a file that appears whole or not at all, or standard output. Main thread only. */
#ifndef PIPETRAIN_EXPORT_OUTPUT_H
#define PIPETRAIN_EXPORT_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_output {
    const char *path;           /* borrowed; "-": standard output */
    bool may_replace;           /* an existing regular file is replaced */
    uint64_t bytes;             /* number of bytes written so far */
    char note[160];             /* a few words on the content for the user, set by the writer; "": none */
    /* For export_output.c. */
    char folder[PATH_MAX];
    const char *name;
    int fd, folder_fd;          /* -1: not open */
};

/* Check in advance that the output may be written; creates nothing. Returns an exit code, after a message unless it is
 * EXIT_CODE_OK. */
int export_output_init(struct export_output *output, const char *path, bool may_replace);
/* Write the next bytes; the first call creates the file under a temporary name, so a writer that finds a problem before
 * it leaves no trace. Fails after a signal that ends the program. Returns as export_output_init. */
int export_output_write(struct export_output *output, const void *data, size_t bytes);
/* Sync the file and give it its name. Returns as export_output_init. */
int export_output_finish(struct export_output *output);
/* Discard what export_output_finish has not completed. */
void export_output_release(struct export_output *output);

#endif
