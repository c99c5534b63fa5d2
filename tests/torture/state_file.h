/* Saved states, as the judge sees them. */
#ifndef PIPETRAIN_TEST_STATE_FILE_H
#define PIPETRAIN_TEST_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Of one of the newest states. */
bool state_file_is_name(const char *name);
/* Every byte is as it was hashed when it was written. The place of the header's hash is overwritten. */
bool state_file_is_whole(char *bytes, size_t count);

#endif
