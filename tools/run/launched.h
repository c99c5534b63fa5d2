/* Commands that are the work of one process, under a launcher that started several. */
#ifndef PIPETRAIN_LAUNCHED_H
#define PIPETRAIN_LAUNCHED_H

/* For the command ("evaluate", "--tune"), once its command line was read. 0 for a process that was started alone;
 * EXIT_CODE_USAGE for one of several, of which the first has said how to run the command. */
int launched_refuse(const char *command);

#endif
