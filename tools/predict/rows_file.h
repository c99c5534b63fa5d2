/* A .npy file of float32 rows, which the user names: one row for each image, in the order of the predictions. It is
 * written under a temporary name beside it and appears when it is complete. Main thread only. */
#ifndef PIPETRAIN_ROWS_FILE_H
#define PIPETRAIN_ROWS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Zero it first. */
struct rows_file {
    const char *path;           /* borrowed; NULL: not open */
    const char *name;           /* in `path`: without its folder */
    bool may_replace;
    int folder_fd;
    FILE *out;                  /* the temporary file */
    uint32_t columns;
    uint64_t rows;
    float *unknown;             /* [columns]: NaN */
};

/* Open the temporary file. `path` must not exist, or with `may_replace` it is replaced at the end. 0, or an exit code
 * after a message; call rows_file_drop in both cases. */
int rows_file_open(struct rows_file *file, const char *path, bool may_replace, uint32_t columns);
/* Add a row; NULL: an image without a result, whose row is NaN. Does nothing if the file is not open. 0, or an exit
 * code after a message. */
int rows_file_add(struct rows_file *file, const float *row);
/* Complete the file and let it appear. Does nothing if it is not open. 0, or an exit code after a message. */
int rows_file_finish(struct rows_file *file);
/* Remove the temporary file, if the file was not finished. Accepts a struct of zeros. */
void rows_file_drop(struct rows_file *file);

#endif
