/* run.conf cut into settings. */
#include "tools/report/settings_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r"

static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    size_t length = strlen(text);
    while (length > 0 && strchr(BLANKS, text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    return text;
}

static size_t count_lines(const char *text)
{
    size_t count = 1;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static void read_line(struct settings_list *list, char *line, const char **section)
{
    line = trim(line);
    char *const end = *line == '[' ? strchr(line, ']') : strchr(line, '=');
    if (end == NULL || *line == '#' || *line == ';')
        return;
    *end = '\0';
    if (*line == '[')
        *section = trim(line + 1);
    else
        list->settings[list->count++] = (struct setting){ *section, trim(line), trim(end + 1) };
}

int settings_list_read(struct settings_list *list_out, const char *text)
{
    struct settings_list list = { .text = strdup(text), .settings = calloc(count_lines(text), sizeof(struct setting)) };
    if (list.text == NULL || list.settings == NULL) {
        settings_list_release(&list);
        return -ENOMEM;
    }
    const char *section = "";
    char *rest = list.text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n"))
        read_line(&list, line, &section);
    *list_out = list;
    return 0;
}

void settings_list_release(struct settings_list *list)
{
    free(list->text);
    free(list->settings);
    *list = (struct settings_list){ .count = 0 };
}

const char *settings_list_find(const struct settings_list *list, const char *section, const char *key)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->settings[i].section, section) == 0 && strcmp(list->settings[i].key, key) == 0)
            return list->settings[i].value;
    return NULL;
}
