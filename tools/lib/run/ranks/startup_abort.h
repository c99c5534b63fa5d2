/* Refuses commands that cannot run in the processes that a launcher started, and ends all of these. */
#ifndef PIPETRAIN_STARTUP_ABORT_H
#define PIPETRAIN_STARTUP_ABORT_H

/* Refuse the command ("evaluate", "--tune") in several processes; to be called once its command line was read. 0 for a
 * process that was started alone; EXIT_CODE_USAGE for one of several, after one of them has printed how to run the
 * command. */
int startup_refuse_command(const char *command);
/* Refuse any command, for a reason that other processes of the launcher may or may not have. Of those on this host
 * with the same reason only the first prints it, with its rank and host if it is not rank 0. What log_hold kept is not
 * printed. Returns EXIT_CODE_USAGE, with which this process has to end at once. */
int startup_abort(const char *reason);
/* Make the other processes, which wait for this one in MPI_Init, end with this code, too. Returns the code, with which
 * this process, after a message, has to end at once. */
int startup_abort_others(int code);

#endif
