/* The user's cache folder of this program: what may be lost and is made again. */
#ifndef PIPETRAIN_CACHE_FOLDER_H
#define PIPETRAIN_CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* $XDG_CACHE_HOME/pipetrain or $HOME/.cache/pipetrain; false when there is neither or the
 * path is too long. */
bool cache_folder_find(char *path_out, size_t path_size);
/* Make it and the folder it is in, readable for the user only. Whether that worked shows
 * when a file is made there. */
void cache_folder_make(void);

#endif
