/* Commands that cannot run under the launcher that started several processes of them. */
#ifndef PIPETRAIN_LAUNCHED_H
#define PIPETRAIN_LAUNCHED_H

#include <stdbool.h>

/* For the command ("evaluate", "--tune"), once its command line was read. 0 for a process that was started alone;
 * EXIT_CODE_USAGE for one of several, of which the first has said how to run the command. */
int launched_refuse(const char *command);
/* Refuse any command, for a reason that all processes of the launcher share. The first process prints it; the others print
 * nothing, and drop what log_hold kept. Returns EXIT_CODE_USAGE, with which this process has to end at once. */
int launched_refuse_all(bool is_first, const char *reason);

#endif
