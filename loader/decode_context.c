/* A thread's own means of decoding. Opened by each decoder, and by main while a data set is
 * opened. */
#include "loader/decode_context.h"

#include <errno.h>
#include <stdlib.h>

#include "formats/tfrecord.h"

static size_t frame_room(const struct dataset *dataset)
{
    return dataset->payload_bytes_max + (size_t)TFRECORD_FRAME_BYTES;
}

size_t decode_context_bytes(const struct dataset *dataset)
{
    const struct image_ops *const image = dataset->format.image;
    return sizeof(struct decode_context) + 2 * frame_room(dataset) + (image != NULL ? image->codec_bytes : 0);
}

static int open_codec(struct decode_context *context)
{
    const struct image_ops *const image = context->dataset->format.image;
    return image != NULL && image->open != NULL ? image->open(&context->codec) : 0;
}

int decode_context_open(struct decode_context **context_out, const struct dataset *dataset)
{
    struct decode_context *const context = malloc(sizeof(*context));
    if (context == NULL)
        return -ENOMEM;
    *context = (struct decode_context){ .dataset = dataset, .frame = malloc(2 * frame_room(dataset)) };
    const int rc = context->frame != NULL ? open_codec(context) : -ENOMEM;
    if (rc < 0) {
        decode_context_close(context);
        return rc;
    }
    context->spare = context->frame + frame_room(dataset);
    *context_out = context;
    return 0;
}

void decode_context_close(struct decode_context *context)
{
    if (context == NULL)
        return;
    if (context->codec != NULL)
        context->dataset->format.image->close(context->codec);
    free(context->frame);
    free(context);
}
