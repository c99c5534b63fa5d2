/* Memory that the torture driver shares with the functions that it preloads into a program (faults.c): a mapped file
 * whose path is in the environment. The driver writes the order before the process starts; the process counts its
 * calls, and those that it made fail. */
#ifndef PIPETRAIN_TEST_BOARD_H
#define PIPETRAIN_TEST_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#define BOARD_VARIABLE "PIPETRAIN_TORTURE"

/* Calls that can fail, by what they do. */
enum call {
    CALL_MEMORY,    /* malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign */
    CALL_MMAP,
    CALL_THREAD,    /* pthread_create */
    CALL_OPEN,      /* open, openat, opendir, fopen, eventfd, signalfd: a descriptor is made */
    CALL_STAT,      /* stat, fstat, access, faccessat, statvfs */
    CALL_READ,      /* read, also of a stream */
    CALL_PREAD,
    CALL_WRITE,     /* write, also of a stream */
    CALL_SYNC,      /* fsync, fdatasync */
    CALL_RENAME,
    CALL_UNLINK,
    CALL_LOCK,      /* flock */
    CALL_MKDIR,
    CALL_COUNT
};

/* Who called: the program, or the C library for it; or another library. */
enum caller { CALLER_PROGRAM, CALLER_LIBRARY, CALLER_COUNT };

/* Other actions than to fail with an errno, which is positive. */
enum { ACTION_SHORT = -1, ACTION_KILL = -2 };

struct order {
    enum call call;
    enum caller caller;
    uint32_t number;        /* the call that fails, from 1 on; 0: none */
    uint32_t lasting;       /* and all that follow */
    int32_t action;
};

struct board {
    struct order order;
    atomic_uint calls[CALL_COUNT][CALLER_COUNT];
    atomic_uint fired;      /* calls that failed */
};

#endif
