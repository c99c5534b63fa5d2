/* What could not be read of a run, in words: said on stderr and on the page. */
#ifndef PIPETRAIN_REMARKS_H
#define PIPETRAIN_REMARKS_H

#include <stddef.h>

#define REMARKS_MAX 16u         /* that are kept; more are counted */

struct remarks {
    char *texts[REMARKS_MAX];   /* owned */
    size_t count, more;
};

/* Say it on stderr and keep it, as far as there is room and memory. */
void remarks_add(struct remarks *remarks, const char *format, ...) __attribute__((format(printf, 2, 3)));
void remarks_release(struct remarks *remarks);

#endif
