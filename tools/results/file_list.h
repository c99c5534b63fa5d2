/* The files of a directory, and which of them go. Used by one thread at a time. */
#ifndef PIPETRAIN_FILE_LIST_H
#define PIPETRAIN_FILE_LIST_H

#include <stdbool.h>
#include <stdint.h>

/* Of the files whose names are those of a number (number_of; UINT64_MAX: it is none), remove all but the `keep` largest
 * up to `number`. What cannot be removed stays. */
void file_list_keep(int directory_fd, uint64_t (*number_of)(const char *name), uint64_t number, uint32_t keep);
/* Remove the files whose names are `unwanted`. What cannot be removed stays. */
void file_list_remove(int directory_fd, bool (*unwanted)(const char *name));

#endif
