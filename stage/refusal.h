/* What a row of a table cannot do, in words for the user: said by the row itself, shown by the
 * program. */
#ifndef PIPETRAIN_REFUSAL_H
#define PIPETRAIN_REFUSAL_H

struct refusal {
    const char *what;           /* the word of the setting that is in the way, "precision"; or "" */
    char why[256];
};

/* Fill in the refusal; returns rc: -EINVAL (settings contradict each other) or -ENODEV (what is
 * there cannot do it). */
int refusal_write(struct refusal *refusal, int rc, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
