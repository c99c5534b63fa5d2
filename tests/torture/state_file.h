/* Checkpoint files, as the judge checks them. */
#ifndef PIPETRAIN_TEST_STATE_FILE_H
#define PIPETRAIN_TEST_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Is it the name of one of the newest checkpoints? */
bool state_file_is_name(const char *name);
/* Do all hashes match? The hash in the header is overwritten. */
bool state_file_is_whole(char *bytes, size_t count);

#endif
