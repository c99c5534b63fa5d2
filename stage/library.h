/* Libraries of others that a part of the program stands on, named with their versions at the
 * start of every run. A part's table of operations points to its rows. */
#ifndef PIPETRAIN_LIBRARY_H
#define PIPETRAIN_LIBRARY_H

#include <stddef.h>

/* Tables of them end with a row whose name is NULL. */
struct library {
    const char *name;           /* as its makers write it, "oneDNN" */
    /* The version that the process runs with, "2.6.3", or "?" where it cannot be had. Any
     * thread; a library that is loaded when it is needed is loaded by this. */
    void (*version)(char *text, size_t text_size);
    const char *file;           /* what its file's name begins with, "libdnnl.so" */
};

#endif
