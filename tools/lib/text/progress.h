/* Progress of a long task on stderr: nothing for the first two seconds, then on a terminal one line that is rewritten
 * and never wraps, elsewhere a line every ten seconds. */
#ifndef PIPETRAIN_PROGRESS_H
#define PIPETRAIN_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The form of progress. PROGRESS_AUTO: a bar if stderr is a terminal with cursor control, else lines. */
enum progress_form { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_LINE, PROGRESS_JSON, PROGRESS_NONE };

struct progress {
    const char *what;           /* the task: "writing" */
    const char *unit;           /* unit of the printed counts: "records" */
    uint64_t total;             /* steps of the whole task; 0: not known */
    uint64_t each;              /* steps per unit */
    uint64_t began_ns;
    bool rewrites;              /* rewrite the line instead of printing a new one */
    bool is_json;
    atomic_uint_fast64_t done, next_ns;     /* next_ns: when the next line is due */
};

/* Set the form for all tasks. Before other threads start. */
void progress_choose(enum progress_form form);
void progress_begin(struct progress *progress, const char *what, const char *unit, uint64_t total);
/* Count bytes and print MiB. */
void progress_begin_bytes(struct progress *progress, const char *what, uint64_t total);
/* Begin a task of `total` units of `each` steps, which progress_add counts. */
void progress_begin_steps(struct progress *progress, const char *what, const char *unit, uint64_t total, uint64_t each);
/* Print nothing if stderr is not a terminal. After progress_begin. */
void progress_keep_to_terminal(struct progress *progress);
/* Count steps, and print a line if it is due. Any thread; lock-free. */
void progress_add(struct progress *progress, uint64_t count);
/* Clear the line on the terminal: at the end, or before other output. */
void progress_end(struct progress *progress);

#endif
