/* Removes files of a directory by their names. Errors are ignored. Used by one thread at a time. */
#ifndef PIPETRAIN_FILE_LIST_H
#define PIPETRAIN_FILE_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* number_of returns the number in a file's name, or UINT64_MAX for names of other files. Of the files with a number
 * keep the `keep` with the largest numbers up to `number`, and remove the rest. */
void file_list_keep(int directory_fd, uint64_t (*number_of)(const char *name), uint64_t number, uint32_t keep);
/* Remove the files for whose names `unwanted` returns true. */
void file_list_remove(int directory_fd, bool (*unwanted)(const char *name));

#endif
