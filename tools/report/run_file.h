/* The files of a run as they are read: whole, or line by line. A run may be writing them. */
#ifndef PIPETRAIN_RUN_FILE_H
#define PIPETRAIN_RUN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_FILE_MAX (64u << 20)        /* bytes of a file that is read whole */
#define RUN_LINE_MAX (1u << 20)         /* and of a line */

/* The whole file `name` in the folder, at most RUN_FILE_MAX bytes, with a 0 behind it; to be freed. 0, or a negative
 * errno: -EFBIG where it is larger, -EINVAL where it is no regular file. */
int run_file_read(int directory_fd, const char *name, char **text_out, size_t *bytes_out);

struct run_line {
    const char *text;           /* terminated, without its end; cut after RUN_LINE_MAX bytes */
    size_t bytes;
    uint64_t number;            /* from 1 */
    bool is_cut;                /* longer than RUN_LINE_MAX */
    bool is_ended;              /* the line has its end: only the last one may have none */
};

/* Call line_of for every line of the file that is not empty, until it returns other than 0, which is given back. 0 at
 * the end of the file, or a negative errno as run_file_read. */
int run_file_lines(int directory_fd, const char *name, int (*line_of)(void *arg, const struct run_line *line),
                   void *arg);

#endif
