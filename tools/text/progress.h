/* Progress of a long task on stderr: nothing for the first two seconds, then on a terminal one line that is repainted,
 * and never wraps; elsewhere a line every ten seconds. */
#ifndef PIPETRAIN_PROGRESS_H
#define PIPETRAIN_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How progress is shown. PROGRESS_AUTO: a bar where stderr is a terminal that can be repainted, lines elsewhere. */
enum progress_form { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_LINE, PROGRESS_JSON, PROGRESS_NONE };

struct progress {
    const char *what;           /* the task: "writing" */
    const char *unit;           /* of the counts that are shown: "records" */
    uint64_t total;             /* counts of the whole task; 0: not known */
    uint64_t each;              /* counts that make one of the unit */
    uint64_t began_ns;
    bool rewrites;              /* a line that is repainted */
    bool is_json;
    atomic_uint_fast64_t done, next_ns;     /* next_ns: when the next line is due */
};

/* How all tasks from here on are shown. Before any thread. */
void progress_choose(enum progress_form form);
void progress_begin(struct progress *progress, const char *what, const char *unit, uint64_t total);
/* Count bytes, and show MiB. */
void progress_begin_bytes(struct progress *progress, const char *what, uint64_t total);
/* Each of `total` units takes `each` steps, which are what progress_add counts. */
void progress_begin_steps(struct progress *progress, const char *what, const char *unit, uint64_t total, uint64_t each);
/* Show nothing where stderr is no terminal. After progress_begin. */
void progress_keep_to_terminal(struct progress *progress);
/* Count, and print where a line is due. Any thread; nobody waits for another. */
void progress_add(struct progress *progress, uint64_t count);
/* Clear the line on the terminal: at the end, or before other lines are printed. */
void progress_end(struct progress *progress);

#endif
