/* What to say about names that are not in the option table. */
#ifndef PIPETRAIN_CONFIG_HINT_H
#define PIPETRAIN_CONFIG_HINT_H

#include <stddef.h>

#include "tools/config/options.h"

#define CONFIG_HINT_SIZE 192

/* Behind an unknown key: " (it is called 'weights' now)", " (it belongs in [data])" or " (did you mean
 * 'prefetch_depth'?)", "" when nothing is near. `section` is where it stands, SECTION_COUNT: in none. The
 * options meant are marked as bad, so that nobody reports them as missing. */
void config_hint_key(struct settings *settings, enum section section, const char *key, char *hint, size_t hint_size);
/* Behind an unknown section: " (did you mean [input]?)" or "". Gives the section that was
 * probably meant, or SECTION_COUNT. */
enum section config_hint_section(const char *name, char *hint, size_t hint_size);

#endif
