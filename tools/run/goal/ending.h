/* Ends of a run that its settings ask for, before its last step: by the clock, or by what an evaluation came to. Pure
 * functions. */
#ifndef PIPETRAIN_ENDING_H
#define PIPETRAIN_ENDING_H

#include <stddef.h>
#include <stdint.h>

#include "tools/config/settings.h"
#include "tools/run/goal/course.h"

enum ending { ENDING_NONE, ENDING_STOP_AT, ENDING_PATIENCE, ENDING_MAX_TIME, ENDING_COUNT };

/* Does one of them need evaluations? Then towers wait behind each for what it comes to. */
bool ending_needs_evaluations(const struct train_settings *train);
/* Is the run over by what its evaluations came to? A run that goes on may be before it begins. */
enum ending ending_of_course(const struct train_settings *train, const struct course *course);
/* Is it by the clock, `elapsed_ns` after the program was started? */
enum ending ending_of_time(const struct train_settings *train, uint64_t elapsed_ns);
/* The key of [train] that asks for it: "stop_at". */
const char *ending_key(enum ending ending);
/* Why it ended: "validation accuracy 97.20 % reaches train.stop_at (97 %)". */
void ending_tell(enum ending ending, const struct train_settings *train, const struct course *course, char *words,
                 size_t words_size);

#endif
