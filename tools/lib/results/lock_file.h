/* A lock file prevents other runs from writing the files in its folder. Its single line names the process that holds
 * the lock, which ends with the process. Used by main only. */
#ifndef PIPETRAIN_LOCK_FILE_H
#define PIPETRAIN_LOCK_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct lock_file {
    int fd;                     /* -1: not open */
    bool is_locked;
};

/* Open and lock the file `name` of the folder, and write this process' line into it. only_tries: nothing is created or
 * written. 0, also if only_tries and there is no such file; -EWOULDBLOCK: another process has the lock; -ESTALE: its
 * holder has removed the file, so try again; -EOPNOTSUPP: the file system has no locks; or another negative errno.
 * After an error problem_out may contain the reason. The caller closes the lock in any case. */
int lock_file_open(struct lock_file *lock, int folder_fd, const char *name, bool only_tries, char *problem_out,
                   size_t problem_size);
/* Release the lock. Accepts one that is not open. */
void lock_file_close(struct lock_file *lock, bool only_tries);
/* Can a regular file of this name be written? 0: there is one, or no file; -ELOOP: there is a symbolic link; -EINVAL:
 * there is another kind of file, which problem_out names. */
int lock_file_check_kind(int folder_fd, const char *name, char *problem_out, size_t problem_size);

#endif
