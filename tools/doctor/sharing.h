/* Can GPUs of several processes work with each other's memory, as sync.reduce = ipc needs? Only processes can tell: two
 * children of --doctor try it. The doctor only watches them, so that it ends even if a call of the driver does not.
 * Main thread only. */
#ifndef PIPETRAIN_SHARING_H
#define PIPETRAIN_SHARING_H

#include <stdbool.h>
#include <stdint.h>

#define SHARING_WHY 256

/* The first argument of the children. */
#define SHARING_COMMAND "doctor-sharing"

struct sharing {
    bool works;
    char why[SHARING_WHY];      /* why it does not; else "" */
};

/* Start `program` ("/proc/self/exe" except in tests) twice, as a child that executes sharing_command, and wait until
 * both have ended. After `limit_ns` they are killed, and it does not work. They print nothing and use all GPUs, or the
 * first 16, for some seconds. */
void sharing_try(const char *program, uint64_t limit_ns, struct sharing *sharing_out);

/* The command of the children: PROGRAM doctor-sharing RANK SOCKET ANSWER. RANK is 0 or 1, SOCKET a descriptor that is
 * connected with the other child, ANSWER one to which rank 0 writes its answer. Returns the exit code. */
int sharing_command(int argc, char **argv, uint64_t process_start_ns);

#endif
