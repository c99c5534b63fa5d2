/* Change values in a configuration file, and leave everything else in it as it is. */
#ifndef PIPETRAIN_CONFIG_EDIT_H
#define PIPETRAIN_CONFIG_EDIT_H

#include <stddef.h>
#include <stdint.h>

struct config_change {
    const char *section, *key;
    uint32_t value;
    const char *word;           /* one without blanks, instead of the value; NULL: none */
};

/* The text with the changes in it; owned by the caller, NULL: no memory. A line that sets the key gets the new value,
 * its comment stays ; where there is none a line is added at the
 * end of the section (of the last one of that name), and a section at the end of the text. */
char *config_edit_text(const char *text, const struct config_change *changes, size_t count);

#define CONFIG_BACKUP_SIZE 4200
/* The same with a file: what it was stays beside it, as `path`.bak or, where there is one, .bak-2 and so on; the new
 * one replaces it at once. 0 with the backup's path, or a negative errno with the file as it was. */
int config_edit_file(const char *path, const struct config_change *changes, size_t count,
                     char backup_out[CONFIG_BACKUP_SIZE]);

#endif
