/* Folders: the folder of a file, making a folder with its parents, removing those again, and the user's cache folder.
 * Any thread. */
#ifndef PIPETRAIN_FOLDERS_H
#define PIPETRAIN_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

/* Split `path` into the folder, "." if the path has no slash, and the file's name, which points into `path`. 0 or
 * -ENAMETOOLONG. */
int folder_of_file(const char *path, char *folder_out, size_t folder_size, const char **name_out);

/* Make the folder `path` and its missing parents. 0, with *topmost_out the length of the prefix of `path` that is the
 * topmost folder made, or 0 if all folders existed. On a failure, the negative errno, and the folders made are removed
 * again. A path that exists counts as a folder, whatever it is. */
int folders_make(const char *path, size_t *topmost_out);
/* Remove the folders that folders_make made, the deepest first, until one is not empty. */
void folders_remove(const char *path, size_t topmost);

/* The user's cache folder for this program, for data that can be recomputed: $XDG_CACHE_HOME/pipetrain or
 * $HOME/.cache/pipetrain. False if neither variable is set or the path is too long. */
bool cache_folder_find(char *path_out, size_t path_size);
/* Make the cache folder and its parent, accessible only to the user. Errors are not reported: making a file there fails
 * then. */
void cache_folder_make(void);

#endif
