/* Making a folder together with those above it, and taking it back. Any thread. */
#ifndef PIPETRAIN_FOLDERS_H
#define PIPETRAIN_FOLDERS_H

#include <stddef.h>

/* Make the folder `path` and those above it that are not there. 0, with the length of the beginning of
 * `path` that names the topmost one made, or 0 where all were there; or the negative errno of what could
 * not be made: then nothing stays. Something that is no folder counts as there. */
int folders_make(const char *path, size_t *topmost_out);
/* Remove what folders_make made, from the lowest up, as far as they are empty. */
void folders_remove(const char *path, size_t topmost);

#endif
