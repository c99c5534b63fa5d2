/* A file of a run that grows a line at a time, each a JSON object. It begins under a temporary name
 * (whole_file.h), where lines can be added already, or is one that is there, of a run that goes on. Used by one thread
 * at a time. */
#ifndef PIPETRAIN_LINES_FILE_H
#define PIPETRAIN_LINES_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/json.h"

struct lines_file {
    const char *name;           /* lent */
    const char *folder;         /* its path, for messages; lent */
    int fd;                     /* -1: closed, or the run has no such file */
    bool goes_on;               /* the file was there and has its name */
    int failed;                 /* first errno of a write, negative */
    uint64_t lost;              /* lines that could not be written */
};

/* Make it in the folder that directory_fd is. 0 or a negative errno; then it is as without lines_file_make. */
int lines_file_make(struct lines_file *lines, int directory_fd);
/* Go on with the file that is there behind its first `bytes`: what stands behind them goes. As lines_file_make where
 * there is none. */
int lines_file_go_on(struct lines_file *lines, int directory_fd, uint64_t bytes);
/* How long it is; 0 without a file. */
uint64_t lines_file_bytes(const struct lines_file *lines);
/* Close what was made, or was not. */
void lines_file_close(struct lines_file *lines);
/* Append one object; what could be written only in part is taken back. The first failure is said on stderr and
 * kept in `failed`, all are counted; the run goes on. */
void lines_file_add(struct lines_file *lines, struct json *line);

#endif
