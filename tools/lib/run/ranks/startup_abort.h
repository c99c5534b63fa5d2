/* Commands that cannot run under the launcher that started several processes of them. */
#ifndef PIPETRAIN_STARTUP_ABORT_H
#define PIPETRAIN_STARTUP_ABORT_H

/* For the command ("evaluate", "--tune"), once its command line was read. 0 for a process that was started alone;
 * EXIT_CODE_USAGE for one of several, of which one has said how to run the command. */
int startup_refuse_command(const char *command);
/* Refuse any command, for a reason that other processes of the launcher may share, or not know of. The first of
 * those on this host that have it prints it, with its rank and host if it is not rank 0; the others, and what
 * log_hold kept, are not printed. Returns EXIT_CODE_USAGE, with which this process has to end at once. */
int startup_abort(const char *reason);
/* This process will end with this code, which it has given a message for, and the others wait for it in MPI_Init:
 * they end, too. Returns the code. */
int startup_abort_others(int code);

#endif
