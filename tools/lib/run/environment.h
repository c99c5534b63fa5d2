/* Variables of the environment by which libraries would compute with fewer threads, on fewer cores or other numbers than
 * a run plans. The OpenMP libraries and oneDNN read them. Main only. */
#ifndef PIPETRAIN_ENVIRONMENT_H
#define PIPETRAIN_ENVIRONMENT_H

#include <stdint.h>

#include "tools/lib/run/run_plan.h"

/* In main, right after team_wait_begin: if OpenMP binds threads to places or gives them stacks of another size, restart
 * the program without that, on all CPUs that it was given. OpenMP binds the first thread before main, and all others
 * inherit its CPU. Lists of CPUs stay the limit. Returns when nothing is to be done or the restart is impossible. */
void environment_unbind(char **argv, uint64_t process_start_ns);

/* How many threads each of `teams` teams that compute at the same time gets, where `threads` are asked for. */
uint32_t environment_threads(uint32_t teams, uint32_t threads);

/* Variables that are set, with their values: "A=1 B=2"; "" without any. Those that limit the threads of a team, the CPUs
 * (found by environment_unbind), and the instructions of oneDNN. */
struct environment_text { char text[192]; };
struct environment_text environment_of_teams(void);
struct environment_text environment_of_cpus(void);
struct environment_text environment_of_instructions(void);

/* A message for each kind of variable that limits the run, or that its author may expect to change it. */
void environment_warn(const struct run_plan *plan);
/* The one of these messages that says why towers have fewer threads than the settings ask for. */
void environment_warn_of_threads(const struct run_plan *plan);

#endif
