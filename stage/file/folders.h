/* Folders: that of a file, making one with its parents and undoing that, and the user's cache folder. Any thread. */
#ifndef PIPETRAIN_FOLDERS_H
#define PIPETRAIN_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

/* The folder of the file at `path`, "." where the path has no slash, and the file's name, which is a part of `path`. 0
 * or -ENAMETOOLONG. */
int folder_of_file(const char *path, char *folder_out, size_t folder_size, const char **name_out);

/* Make the folder `path` and its missing parents. 0, with the length of the prefix of `path` that names the topmost
 * folder made, 0 where all existed; or the negative errno of what could not be made: then nothing is left. Anything
 * that exists counts as a folder. */
int folders_make(const char *path, size_t *topmost_out);
/* Remove what folders_make made, from the lowest up, as far as the folders are empty. */
void folders_remove(const char *path, size_t topmost);

/* The user's cache folder of this program, for what can be made again: $XDG_CACHE_HOME/pipetrain or
 * $HOME/.cache/pipetrain. False when there is neither or the path is too long. */
bool cache_folder_find(char *path_out, size_t path_size);
/* Make the cache folder and its parent, accessible to the user only. A failure shows when a file is made there. */
void cache_folder_make(void);

#endif
