/* What limits of the process (ulimit -v, -d, -n) leave to it, of which what the machine has tells nothing. */
#ifndef PIPETRAIN_LIMITS_H
#define PIPETRAIN_LIMITS_H

#include <stddef.h>

/* First in main, before any thread: stacks get the size that the program needs, where limits (ulimit -s) let
 * them, and main's has it at once. With an address space that is limited, threads share the room that they
 * allocate from. A library that gets no memory ends the process with a message. 0, or -ENOMEM after a message. */
int limits_prepare(void);

/* Bytes that may still be mapped; SIZE_MAX: no limit, or none that can be read. */
struct limits_left {
    size_t address_space;       /* RLIMIT_AS: of all mappings */
    size_t data;                /* RLIMIT_DATA: of private ones that can be written, stacks of threads among them */
};

/* Now. Any thread. */
struct limits_left limits_left(void);
/* May this process open so many files more, by its limit (ulimit -n)? 0, or -EMFILE after a message that names the
 * number it takes. Main, at the start. */
int limits_check_files(size_t more);
/* What a thread that is started from here on takes of both. */
size_t limits_thread_bytes(void);

#endif
