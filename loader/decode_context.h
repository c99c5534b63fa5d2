/* What one thread keeps to bring records of one data set from bytes to samples. A context is
 * opened, used and closed by the same thread, which so has memory near it and a library's
 * handles to itself. */
#ifndef PIPETRAIN_DECODE_CONTEXT_H
#define PIPETRAIN_DECODE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"

struct decode_context {
    const struct dataset *dataset;
    uint8_t *frame, *spare;     /* each with room for the data set's longest frame */
    void *codec;                /* of dataset->format.image */
};

/* Host memory a context takes. */
size_t decode_context_bytes(const struct dataset *dataset);
/* The data set is lent until close. Before its format is found there is no codec: frames can be
 * read then, not decoded. 0 or a negative errno. */
int decode_context_open(struct decode_context **context_out, const struct dataset *dataset);
/* Accepts NULL. */
void decode_context_close(struct decode_context *context);

#endif
