/* How thorough a test is. make check takes the smallest sizes that show each property; make check-long sets
 * PIPETRAIN_TEST_LONG=yes for all of them. */
#ifndef PIPETRAIN_TEST_LONG_H
#define PIPETRAIN_TEST_LONG_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_is_long(void)
{
    const char *const asked = getenv("PIPETRAIN_TEST_LONG");
    return asked != NULL && strcmp(asked, "yes") == 0;
}

#endif
