/* For tests that do something else in a program built with a sanitizer, where it takes several times as long and maps
 * more memory than any limit allows. make check sets PIPETRAIN_SANITIZER to what it is built with, or no. */
#ifndef PIPETRAIN_TEST_SANITIZER_H
#define PIPETRAIN_TEST_SANITIZER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_is_sanitized(void)
{
    const char *const sanitizer = getenv("PIPETRAIN_SANITIZER");
    return sanitizer != NULL && strcmp(sanitizer, "no") != 0;
}

#endif
