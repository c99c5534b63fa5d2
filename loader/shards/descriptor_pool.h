/* Descriptors of any number of files, of which so many are open at a time as the process may have: a
 * file is opened when it is read, and those that were not read for long are closed for it. One pool
 * for the process, as its limit is one. A read holds no lock. */
#ifndef PIPETRAIN_DESCRIPTOR_POOL_H
#define PIPETRAIN_DESCRIPTOR_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A file of the pool, inside what describes it. */
struct pooled_file {
    /* Open it: a descriptor, or a negative errno. From the thread that wants to read, several may at
     * once; all but one of the descriptors are closed again. */
    int (*open)(struct pooled_file *file);
    atomic_uint state;          /* threads that read, and whether the descriptor is open and was used lately */
    int fd;                     /* constant while it is open */
    size_t place;               /* among the open ones; under the pool's lock */
};

/* Make room for one more file. 0 or -ENOMEM. */
int pooled_file_init(struct pooled_file *file, int (*open)(struct pooled_file *file));
/* Close it. No thread reads. */
void pooled_file_release(struct pooled_file *file);
/* The file's descriptor, which stays open until it is given back, or a negative errno from opening it.
 * Waits while as many files as may be open are being read. */
int pooled_file_take(struct pooled_file *file);
/* The same where the file is open, else -EAGAIN. Never waits. */
int pooled_file_try(struct pooled_file *file);
void pooled_file_give_back(struct pooled_file *file);

/* Close a file that is not being read, for somebody else who is short of descriptors. False when there
 * is none. */
bool descriptor_pool_make_room(void);

#endif
