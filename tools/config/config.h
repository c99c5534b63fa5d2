/* Configuration files and --set options -> settings. The file is INI:
 *
 *     [section]
 *     key = value         # comments begin with '#' or ';' at the start of a line or
 *     name = "a # b"      ; after white space; quotes keep what is inside as it is
 *
 * Nothing stops at the first problem: all are collected, each with its line and, where
 * there is one, the nearest valid name. Used by main only. */
#ifndef PIPETRAIN_CONFIG_H
#define PIPETRAIN_CONFIG_H

#include <stddef.h>

#include "tools/config/problems.h"
#include "tools/config/settings.h"

#define CONFIG_LINE_MAX 65536u          /* bytes */
#define CONFIG_FILE_MAX (4u << 20)      /* bytes */

/* Read the file at `path`, or what comes from a pipe until it ends. 0, or with problems added: -EINVAL;
 * -ENODATA when it could not be read; -ENOMEM. */
int config_read(struct settings *settings, const char *path, struct problems *problems);
/* Read a text as if it were a file called `name`. */
int config_parse(struct settings *settings, const char *name, const char *text, size_t bytes,
                 struct problems *problems);
/* Apply one --set argument, "section.key=value", or "key=value" where one section alone has the key; later ones win.
 * After config_read. */
int config_set(struct settings *settings, const char *assignment, struct problems *problems);

#endif
