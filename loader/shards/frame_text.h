/* What a failed check of a frame says to people. */
#ifndef PIPETRAIN_FRAME_TEXT_H
#define PIPETRAIN_FRAME_TEXT_H

#include <stddef.h>

#include "formats/tfrecord.h"

/* "payload checksum differs (stored 0badcafe, computed 12345678)" and the like. */
void frame_text(enum tfrecord_check check, const struct tfrecord_problem *problem, char *text, size_t text_size);

#endif
