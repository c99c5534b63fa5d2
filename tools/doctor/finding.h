/* The findings of --doctor, for people and for scripts. Main thread only. */
#ifndef PIPETRAIN_FINDING_H
#define PIPETRAIN_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum judgement {
    JUDGEMENT_FINE,
    JUDGEMENT_NOTE,             /* it may make a run slower */
    JUDGEMENT_WARN,             /* it makes a run slower, or impossible */
    JUDGEMENT_COUNT
};

struct finding {
    const char *topic, *name;   /* such as "cores" and "quota"; borrowed */
    enum judgement judgement;
    char *found, *advice;       /* owned; advice: the consequence and how to fix it, "" if the finding is fine */
};

/* Initialised with zeros. */
struct findings {
    struct finding *of;
    size_t count, room;
    bool failed;                /* out of memory: some findings are missing */
};

void findings_release(struct findings *findings);
/* Add a finding that is judged to be fine. */
void findings_add(struct findings *findings, const char *topic, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Judge the finding that was added last, with an advice. A second judgement replaces the first only if it is worse. */
void findings_judge(struct findings *findings, enum judgement judgement, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t findings_count(const struct findings *findings, enum judgement judgement);

/* Print a table in 80 columns, unless a path is longer, and a last line with the number of each judgement. */
void findings_print(const struct findings *findings, FILE *out);
/* Write a JSON object on each line: {"topic", "name", "judgement": "fine"|"note"|"warn", "found", "advice"}. Returns
 * 0 or -ENOMEM. */
int findings_write(const struct findings *findings, FILE *out);

#endif
