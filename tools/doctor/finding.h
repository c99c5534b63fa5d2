/* What --doctor finds: a list of findings, for people and for scripts. Used by main only. */
#ifndef PIPETRAIN_FINDING_H
#define PIPETRAIN_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum judgement {
    JUDGEMENT_FINE,
    JUDGEMENT_NOTE,             /* it may cost something, or something could be better */
    JUDGEMENT_WARN,             /* it costs a run speed, or the run */
    JUDGEMENT_COUNT
};

struct finding {
    const char *topic, *name;   /* lent: "cores", "quota" */
    enum judgement judgement;
    char *found, *advice;       /* owned; advice: what it costs and what to do, "" where it is fine */
};

/* Begins as zeros. */
struct findings {
    struct finding *of;
    size_t count, room;
    bool failed;                /* out of memory: some are lost */
};

void findings_release(struct findings *findings);
/* Add one that is fine. */
void findings_add(struct findings *findings, const char *topic, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The one that was added last is not fine: a judgement, what it costs and what to do. The second judgement of a finding
 * is left out unless it is worse. */
void findings_judge(struct findings *findings, enum judgement judgement, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The finding of this topic and name, or NULL. */
const struct finding *findings_find(const struct findings *findings, const char *topic, const char *name);
size_t findings_count(const struct findings *findings, enum judgement judgement);

/* A table on lines of 80 columns, but for paths, and a last line that counts. */
void findings_print(const struct findings *findings, FILE *out);
/* A JSON object a line: {"topic", "name", "judgement": "fine"|"note"|"warn", "found", "advice"}. 0 or -ENOMEM. */
int findings_write(const struct findings *findings, FILE *out);

#endif
