/* What a row of a table cannot do, in words for the user: said by the row itself, shown by the
 * program. */
#ifndef PIPETRAIN_UNSUPPORTED_REASON_H
#define PIPETRAIN_UNSUPPORTED_REASON_H

struct unsupported_reason {
    const char *what;           /* the word of the setting that is in the way, "precision"; or "" */
    char why[256];
};

/* Fill in the reason; returns rc: -EINVAL (settings contradict each other) or -ENODEV (what is
 * there cannot do it). */
int unsupported_reason_set(struct unsupported_reason *reason, int rc, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
