/* Saying no. Called by main, before anything is started. */
#include "stage/refusal.h"

#include <stdarg.h>
#include <stdio.h>

int refusal_write(struct refusal *refusal, int rc, const char *what, const char *format, ...)
{
    va_list arguments;
    refusal->what = what;
    va_start(arguments, format);
    vsnprintf(refusal->why, sizeof(refusal->why), format, arguments);
    va_end(arguments);
    return rc;
}
