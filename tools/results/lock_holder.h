/* Who holds the lock of a run's directory, told in the lock's file. Used by main only. */
#ifndef PIPETRAIN_LOCK_HOLDER_H
#define PIPETRAIN_LOCK_HOLDER_H

#include <stddef.h>

/* Write into the file, whose lock this process has: its number, its machine and the time. What cannot be written is
 * not told: the lock holds all the same. */
void lock_holder_write(int fd);
/* The lock ends: nobody is named any more. */
void lock_holder_clear(int fd);
/* What the holder wrote, as "process 4711 on HOST since DATE TIME UTC"; "" where it is nothing of that kind. */
void lock_holder_read(int fd, char *words_out, size_t words_size);

#endif
