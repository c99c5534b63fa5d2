/* An array of NumPy's: a .npy file, read piece by piece as it is needed, or a member of an .npz archive, unpacked. */
#ifndef PIPETRAIN_ARRAY_H
#define PIPETRAIN_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "formats/npy.h"
#include "formats/zip.h"
#include "stage/stop.h"

struct array {
    char *path;                 /* for messages: "x.npy", "x.npz: x_train.npy"; owned */
    int fd;                     /* of the file; -1 where it is in memory */
    uint8_t *bytes;             /* of the member, or NULL; owned */
    struct npy npy;
};

/* Open a .npy file. 0, or a negative errno after stop_fail; array_close in all cases, also of one that is all zeros
 * but for fd = -1. */
int array_open_file(struct array *array, const char *path, struct stop *stop);
/* Unpack a member of the archive `path`. */
int array_open_member(struct array *array, const char *path, const struct zip_member *member, struct stop *stop);
void array_close(struct array *array);

/* Read `bytes` of the numbers from byte `offset`, which there are. Any thread. 0, or a negative errno after
 * stop_fail. */
int array_read(const struct array *array, uint64_t offset, void *out, size_t bytes, struct stop *stop);
/* Report what is wrong with it; returns -EBADMSG. */
int array_fail(const struct array *array, struct stop *stop, const char *problem);
/* The same of its shape: `problem` follows "has the shape (3, 4): ". */
int array_fail_shape(const struct array *array, struct stop *stop, const char *problem);

#endif
