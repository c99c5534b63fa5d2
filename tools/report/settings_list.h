/* The settings of a run.conf as texts, whatever version wrote it: to be compared, not to be run. */
#ifndef PIPETRAIN_SETTINGS_LIST_H
#define PIPETRAIN_SETTINGS_LIST_H

#include <stddef.h>

struct setting { const char *section, *key, *value; };  /* within the list's text */

struct settings_list {
    char *text;                 /* owned */
    struct setting *settings;   /* in the file's order; owned */
    size_t count;
};

/* Read a terminated text. 0 or -ENOMEM. Lines that are neither sections nor settings are passed over. */
int settings_list_read(struct settings_list *list_out, const char *text);
void settings_list_release(struct settings_list *list);
/* NULL where it has no such key. */
const char *settings_list_find(const struct settings_list *list, const char *section, const char *key);

#endif
