/* Lines of names. Pure; called by converters while they prepare. */
#include "tools/convert/class_names.h"

#include <stdlib.h>
#include <string.h>

/* The first line of the text that is not empty, without its end; NULL when there is none. */
static const uint8_t *next_line(const uint8_t *text, const uint8_t *end, size_t *bytes_out)
{
    while (text < end && (*text == '\n' || *text == '\r'))
        text++;
    size_t bytes = 0;
    while (text + bytes < end && text[bytes] != '\n' && text[bytes] != '\r')
        bytes++;
    *bytes_out = bytes;
    return bytes > 0 ? text : NULL;
}

static uint32_t count_lines(const uint8_t *text, const uint8_t *end)
{
    uint32_t count = 0;
    size_t bytes;
    for (text = next_line(text, end, &bytes); text != NULL; text = next_line(text + bytes, end, &bytes))
        count++;
    return count;
}

char **class_names_parse(const uint8_t *text, size_t bytes, uint32_t count, uint32_t *found_out)
{
    const uint8_t *const end = text + bytes;
    *found_out = count_lines(text, end);
    if (*found_out != count)
        return NULL;
    char **const names = malloc(count * sizeof(*names) + bytes + 1);
    if (names == NULL)
        return NULL;
    char *at = (char *)(names + count);
    const uint8_t *line = next_line(text, end, &bytes);
    for (uint32_t i = 0; i < count; i++, line = next_line(line + bytes, end, &bytes)) {
        names[i] = at;
        memcpy(at, line, bytes);
        at[bytes] = '\0';
        at += bytes + 1;
    }
    return names;
}
