/* Suggestions for a key, section, model or tensor that does not exist. */
#ifndef PIPETRAIN_HINTS
#define PIPETRAIN_HINTS

#include <stddef.h>

#include "compute/net.h"
#include "tools/lib/config/options.h"

#define CONFIG_HINT_SIZE 192

/* The hint for an unknown key of `section` (SECTION_COUNT: in no section): " (pipetrain calls it 'weights')", " (it
 * belongs in [data])", " (did you mean 'prefetch_depth'?)", or "". The suggested options are marked as bad, so that
 * they are not reported as missing. */
void config_hint_key(struct settings *settings, enum section section, const char *key, char *hint, size_t hint_size);
/* The hint for an unknown section: " (did you mean [input]?)" or "". Returns the section that was probably meant, or
 * SECTION_COUNT. */
enum section config_hint_section(const char *name, char *hint, size_t hint_size);

#define MODEL_HINT_SIZE 320

/* Write a message such as "there is no model 'resnet50' (did you mean 'resnet50_v1' or 'resnet50_v2'?)": at most four
 * names, the nearest first, then those that contain the text. */
void model_hint(const char *name, char text[MODEL_HINT_SIZE]);

#define TENSOR_HINT_SIZE 256

/* The hint for a pattern that matches nothing: " (did you mean 'layer4.*'?)", a name or a prefix; or, if none is near,
 * " (they begin with conv1, bn1, layer1, ..., fc)". */
void tensor_hint(const struct net *net, const char *pattern, char text[TENSOR_HINT_SIZE]);

#endif
