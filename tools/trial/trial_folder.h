/* A folder for what is needed for a while. Main only. */
#ifndef PIPETRAIN_TRIAL_FOLDER_H
#define PIPETRAIN_TRIAL_FOLDER_H

#include <stddef.h>

/* Make one in $TMPDIR, else in /tmp, that only the user can look into. 0, with its path, or a negative errno. */
int trial_folder_make(char *path_out, size_t path_size);
/* Remove it with all that is in it; links are not followed. What cannot be removed is told once and stays. */
void trial_folder_remove(const char *path);

#endif
