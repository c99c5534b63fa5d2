/* A list of messages. */
#include "tools/report/remarks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"

void remarks_add(struct remarks *remarks, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_message(LOG_ERROR, "%s", text);
    char *const copy = remarks->count < REMARKS_MAX ? strdup(text) : NULL;
    if (copy != NULL)
        remarks->texts[remarks->count++] = copy;
    else
        remarks->more++;
}

void remarks_release(struct remarks *remarks)
{
    for (size_t i = 0; i < remarks->count; i++)
        free(remarks->texts[i]);
    *remarks = (struct remarks){ .count = 0 };
}
