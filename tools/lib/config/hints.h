/* Suggestions for a key or section that does not exist. */
#ifndef PIPETRAIN_HINTS
#define PIPETRAIN_HINTS

#include <stddef.h>

#include "tools/lib/config/options.h"

#define CONFIG_HINT_SIZE 192

/* The hint for an unknown key of `section` (SECTION_COUNT: in no section): " (pipetrain calls it 'weights')", " (it
 * belongs in [data])", " (did you mean 'prefetch_depth'?)", or "". The suggested options are marked as bad, so that
 * they are not reported as missing. */
void config_hint_key(struct settings *settings, enum section section, const char *key, char *hint, size_t hint_size);
/* The hint for an unknown section: " (did you mean [input]?)" or "". Returns the section that was probably meant, or
 * SECTION_COUNT. */
enum section config_hint_section(const char *name, char *hint, size_t hint_size);

#endif
