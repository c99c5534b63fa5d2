/* Third-party libraries that a part of the program uses. Their versions are printed at the start of every run. The
 * part's table of operations points to its libraries. */
#ifndef PIPETRAIN_LIBRARY_H
#define PIPETRAIN_LIBRARY_H

#include <stddef.h>

/* Tables end with a row whose name is NULL. */
struct library {
    const char *name;           /* official name, "oneDNN" */
    /* Write the version in use, "2.6.3", or "?" if unknown. Loads a library that is loaded on demand. Any thread. */
    void (*version)(char *text, size_t text_size);
    const char *file;           /* prefix of its file name, "libdnnl.so" */
};

#endif
