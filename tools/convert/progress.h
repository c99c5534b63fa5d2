/* How far a long piece of work is, said on stderr: nothing for the first two seconds, then a line that is
 * painted over again and again on a terminal, and never wider than that, and a line every ten seconds elsewhere. */
#ifndef PIPETRAIN_PROGRESS_H
#define PIPETRAIN_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what;           /* is being done: "writing" */
    const char *unit;           /* of what is counted: "records" */
    uint64_t total;             /* of what is counted, or 0 where nobody knows */
    uint64_t each;              /* of what is counted make one of what is shown */
    uint64_t began_ns;
    bool rewrites;              /* stderr is a terminal that can do so */
    bool is_json;
    atomic_uint_fast64_t done, next_ns;     /* when something is said next */
};

enum progress_how { PROGRESS_AS_IT_FITS, PROGRESS_PAINTED, PROGRESS_LINES, PROGRESS_OBJECTS, PROGRESS_SILENT };

/* How what begins from here on is said: painted over where stderr is a terminal that can do so, or so in any case; as
 * lines; or as lines that are JSON objects. Before any thread. */
void progress_choose(enum progress_how how);
void progress_begin(struct progress *progress, const char *what, const char *unit, uint64_t total);
/* Bytes, which are shown in MiB. */
void progress_begin_bytes(struct progress *progress, const char *what, uint64_t total);
/* Of each of `total` so many steps are done, which are what is added; as many are shown as the steps come to. */
void progress_begin_steps(struct progress *progress, const char *what, const char *unit, uint64_t total, uint64_t each);
/* After it has begun: nothing is said where stderr is no terminal. */
void progress_keep_to_terminal(struct progress *progress);
/* So many more are done. Any thread; whoever comes when it is time says it, and nobody waits. */
void progress_add(struct progress *progress, uint64_t count);
/* Nothing stays on the terminal: when no thread adds any more, or in front of other lines. */
void progress_end(struct progress *progress);

#endif
