/* Problems of the command line and the configuration: collected, then printed together, one line each. Main thread
 * only. */
#ifndef PIPETRAIN_PROBLEMS_H
#define PIPETRAIN_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

#define PROBLEMS_MAX 100        /* lines that are kept; further ones are only counted */

struct problems {
    size_t count;
    char *lines[PROBLEMS_MAX];  /* owned; escaped by log_plain */
    bool ran_short;             /* there was no memory for a line */
};

void problems_init(struct problems *problems);
void problems_release(struct problems *problems);
/* Add a line "WHERE: MESSAGE", or MESSAGE if `where` is "". */
void problems_add(struct problems *problems, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Print all lines in order, then the number of those not kept. */
void problems_print(const struct problems *problems);
/* Print all problems and release them. Returns the exit code: `code`, or EXIT_CODE_MEMORY if there was no memory for a
 * line. EXIT_CODE_MEMORY is never returned without a message. */
int problems_end(struct problems *problems, int code);

#endif
