/* A whole file of text that people write, or what comes from a pipe. Used by main only. */
#ifndef PIPETRAIN_CONFIG_TEXT_H
#define PIPETRAIN_CONFIG_TEXT_H

#include <stddef.h>

#include "tools/config/problems.h"

#define CONFIG_TEXT_WAIT_SECONDS 10       /* that a pipe or a terminal may give nothing */

/* Read the file at `path`, no larger than `most`, which holds a `what`. 0 and the text, to be freed; or with a
 * problem added -ENODATA or -ENOMEM. */
int config_text_read(const char *path, size_t most, const char *what, char **text_out, size_t *bytes_out,
                   struct problems *problems);

#endif
