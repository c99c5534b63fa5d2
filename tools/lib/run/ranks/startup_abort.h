/* Refuses commands that cannot run in several processes of a launcher, and ends all these processes. */
#ifndef PIPETRAIN_STARTUP_ABORT_H
#define PIPETRAIN_STARTUP_ABORT_H

/* Refuse the command ("evaluate", "--tune") in several processes; to be called once its command line was read. 0 for a
 * process that was started alone; EXIT_CODE_USAGE for one of several, after one of them has printed how to run the
 * command. */
int startup_refuse_command(const char *command);
/* Refuse any command, for a reason that may or may not apply to other processes of the launcher. Of the processes on
 * this host with the same reason only the first prints it, with its rank and host if it is not rank 0. Messages that
 * log_hold kept are dropped. Returns EXIT_CODE_USAGE, with which this process has to end at once. */
int startup_abort(const char *reason);
/* Make the other processes, which wait for this one in MPI_Init, end with this code, too. Called after a message.
 * Returns the code, with which this process has to end at once. */
int startup_abort_others(int code);

#endif
