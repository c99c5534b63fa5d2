/* The models that somebody probably meant. */
#ifndef PIPETRAIN_MODEL_HINT_H
#define PIPETRAIN_MODEL_HINT_H

#include <stddef.h>

#define MODEL_HINT_SIZE 320

/* "there is no model 'resnet50' (did you mean 'resnet50_v1' or 'resnet50_v2'?)": the nearest names first, then those
 * that hold what was written, four at most. */
void model_hint(const char *name, char text[MODEL_HINT_SIZE]);

#endif
