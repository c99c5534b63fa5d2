/* Configuration files and --set options -> settings. The file is INI:
 *
 *     [section]
 *     key = value         # comments begin with '#' or ';' at the start of a line or
 *     name = "a # b"      ; after white space; quotes keep the text inside unchanged
 *
 * All problems are collected, each with its line and, if there is one, the nearest valid name. Main thread only. */
#ifndef PIPETRAIN_CONFIG_H
#define PIPETRAIN_CONFIG_H

#include <stddef.h>

#include "tools/lib/config/problems.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/config/settings.h"

#define CONFIG_LINE_MAX 65536u          /* bytes */
#define CONFIG_FILE_MAX (4u << 20)      /* bytes */

/* Read a file, or a pipe up to its end. 0, or with problems added: -EINVAL; -ENODATA if it cannot be read; -ENOMEM. */
int config_read(struct settings *settings, const char *path, struct problems *problems);
/* Parse a text as if it were a file with the name `name`. */
int config_parse(struct settings *settings, const char *name, const char *text, size_t bytes,
                 struct problems *problems);
/* Apply one --set argument, "section.key=value", or "key=value" if only one section has the key; later ones win.
 * Call it after config_read. A feed's settings refuse options that feeds do not take. */
int config_set(struct settings *settings, const char *assignment, struct problems *problems);

/* The options of a command line about settings. Zero it first. */
struct config_arguments {
    const char *path;           /* the file of -c; NULL: not given */
    struct string_list assignments;       /* the values of --set */
};

/* Read the file, if there is one, then apply the assignments, even if the file has problems. 0, or with problems added:
 * -EINVAL, or an error of config_read. */
int config_collect(struct settings *settings, const struct config_arguments *words, struct problems *problems);
void config_arguments_release(struct config_arguments *words);

#define CONFIG_TEXT_WAIT_SECONDS 10     /* the longest wait for data from a pipe or a terminal */

/* Read a text file of at most `most` bytes, or a pipe up to its end; `what` names its kind in messages ("configuration
 * file"). 0 and the text, which the caller frees; or with a problem added -ENODATA or -ENOMEM. */
int config_text_read(const char *path, size_t most, const char *what, char **text_out, size_t *bytes_out,
                     struct problems *problems);

#endif
