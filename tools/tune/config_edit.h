/* Change values in a configuration file and leave everything else in it as it is. */
#ifndef PIPETRAIN_CONFIG_EDIT_H
#define PIPETRAIN_CONFIG_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#define CONFIG_VALUE_BYTES 16
#define CONFIG_BACKUP_SIZE 4200

struct config_change {
    const char *section, *key;
    char value[CONFIG_VALUE_BYTES];     /* a word without blanks */
};

/* Returns the text with the changes; owned by the caller, NULL if out of memory. A line that sets the key gets the
 * new value and keeps its comment. Without such a line, a new one is added at the end of the section (the last
 * section of this name); a missing section is added at the end of the text. */
char *config_edit_text(const char *text, const struct config_change *changes, size_t count);

/* Is the file read-only: without any write permission, or not writable by this user? */
bool config_edit_is_read_only(const char *path);

/* Make these changes in a file. A copy of the old file stays as `path`.bak or, if that exists, .bak-2 and so on; the
 * new file replaces the old one atomically. Returns 0 with the path of the copy, or a negative errno with the file
 * unchanged: -EACCES if it is read-only. */
int config_edit_file(const char *path, const struct config_change *changes, size_t count,
                     char backup_out[CONFIG_BACKUP_SIZE]);

#endif
