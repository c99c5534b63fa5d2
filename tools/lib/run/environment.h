/* Environment variables of the OpenMP libraries and oneDNN that make them compute with fewer threads, on fewer cores or
 * other numbers than a run plans. Main only. */
#ifndef PIPETRAIN_ENVIRONMENT_H
#define PIPETRAIN_ENVIRONMENT_H

#include <stdint.h>

#include "tools/lib/run/run_plan.h"

/* Called in main, right after team_wait_begin: if variables make OpenMP bind threads to places or give them stacks of
 * another size, restart the program without these variables, on all CPUs that it was given. (OpenMP binds the first
 * thread before main, and all others inherit its CPU.) Lists of CPUs still limit the CPUs. Returns if no restart is
 * needed or it is impossible. */
void environment_unbind(char **argv, uint64_t process_start_ns);

/* The number of threads that each of `teams` teams gets if all compute at the same time and each asks for `threads`. */
uint32_t environment_threads(uint32_t teams, uint32_t threads);

/* Variables that are set, with their values: "A=1 B=2"; "" without any. Of three kinds: those that limit the threads of
 * a team, the CPUs (found by environment_unbind), or the instructions of oneDNN. */
struct environment_text { char text[192]; };
struct environment_text environment_of_teams(void);
struct environment_text environment_of_cpus(void);
struct environment_text environment_of_instructions(void);

/* Print a message for each kind of variable that limits the run or that users may expect to have an effect. */
void environment_warn(const struct run_plan *plan);
/* Print only the message why towers have fewer threads than the settings ask for. */
void environment_warn_of_threads(const struct run_plan *plan);

#endif
