/* Saying no. Called by main, before anything is started. */
#include "stage/unsupported_reason.h"

#include <stdarg.h>
#include <stdio.h>

int unsupported_reason_set(struct unsupported_reason *reason, int rc, const char *what, const char *format, ...)
{
    va_list arguments;
    reason->what = what;
    va_start(arguments, format);
    vsnprintf(reason->why, sizeof(reason->why), format, arguments);
    va_end(arguments);
    return rc;
}
