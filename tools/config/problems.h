/* What is wrong with the command line and the configuration: collected, then
 * printed all at once, one line each. Used by main only. */
#ifndef PIPETRAIN_PROBLEMS_H
#define PIPETRAIN_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

#define PROBLEMS_MAX 100        /* lines kept; what comes after is only counted */

struct problems {
    size_t count;
    char *lines[PROBLEMS_MAX];  /* owned; as log_plain shows them */
    bool ran_short;             /* a line could not be kept: there was no memory for it */
};

void problems_init(struct problems *problems);
void problems_release(struct problems *problems);
/* Add a line "WHERE: MESSAGE" (only MESSAGE when where is ""). */
void problems_add(struct problems *problems, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* All lines as messages in the order they were added, then how many more there were. */
void problems_print(const struct problems *problems);
/* The exit code: `code`, but when memory ran short the one for that. */
int problems_code(const struct problems *problems, int code);

#endif
