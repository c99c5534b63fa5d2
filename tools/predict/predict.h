/* pipetrain predict: what a network that was trained takes images for. */
#ifndef PIPETRAIN_PREDICT_H
#define PIPETRAIN_PREDICT_H

#include "tools/config/settings.h"
#include "tools/predict/image_words.h"
#include "tools/predict/prediction.h"

struct predict_request {
    const char *weights;        /* file */
    uint32_t top, batch;        /* classes that are told of an image; images that are computed at a time, at most */
    enum prediction_form form;
};

/* All of it: the program's exit code. The settings have a network; they are changed. Results go to stdout, messages to
 * stderr. An image that cannot be read is told, the others go on, and the exit code tells of it. */
int predict(struct settings *settings, const struct image_words *words, const struct predict_request *request);

#endif
