/* The folder of a test, and files in it. */
#ifndef PIPETRAIN_FILE_FIXTURE_H
#define PIPETRAIN_FILE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folder, one at a time. */
extern char folder[256];

/* What cmocka calls before and after a test or a group. Make a new, empty folder in $TMPDIR or /tmp, and let the user's
 * caches be in FOLDER/cache; remove it with everything in it. */
int fixture_folder_make(void **state);
int fixture_folder_remove(void **state);
/* The same, and it is the current directory. */
int fixture_folder_enter(void **state);
int fixture_folder_leave(void **state);
/* Remove any folder with everything in it. */
void fixture_folder_clear(const char *path);

/* "PLACE/NAME" in a buffer that the next call but three reuses. */
const char *fixture_path(const char *place, const char *name);
/* A new folder `name` in the folder; its path, in the room given. */
const char *fixture_subfolder(char *path_out, size_t path_size, const char *name);
/* Calls use(path), which must return 0, for every file in the folder except hidden ones; NULL: only counts. Returns
 * their number. */
int fixture_each_file(const char *place, int (*use)(const char *path));
/* Is there anything of this name, even a link to nothing? */
bool fixture_exists(const char *path);
/* A file of these bytes, or of a text's, in place of what has the name. */
void fixture_write(const char *path, const void *data, size_t bytes);
void fixture_write_text(const char *path, const char *text);
/* The whole file in memory, to be freed. */
uint8_t *fixture_read(const char *path, size_t *bytes_out);

#endif
