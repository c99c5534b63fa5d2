/* The folder of a test, and files in it. */
#ifndef PIPETRAIN_FILE_FIXTURE_H
#define PIPETRAIN_FILE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folder, one at a time. */
extern char folder[256];

/* Set-up and tear-down of a test or a group: make a new folder in $TMPDIR or /tmp, with the user's caches in
 * FOLDER/cache; remove it with its content. */
int fixture_folder_make(void **state);
int fixture_folder_remove(void **state);
/* The same, and make it the current directory. */
int fixture_folder_enter(void **state);
int fixture_folder_leave(void **state);
/* Remove a folder with its content. */
void fixture_folder_clear(const char *path);

/* "PLACE/NAME", valid for the next three calls. */
const char *fixture_path(const char *place, const char *name);
/* Write a safetensors file: the length of the header, the header, and `data_bytes` zeros. */
void fixture_write_tensors(const char *path, const char *header, size_t header_bytes, uint64_t data_bytes);
/* Make a folder inside the test's folder. Returns path_out, its path. */
const char *fixture_subfolder(char *path_out, size_t path_size, const char *name);
/* Call use(path), which must return 0, for every file in the folder that is not hidden; NULL: only count them. Returns
 * their number. */
int fixture_each_file(const char *place, int (*use)(const char *path));
/* Does the path exist, even as a dangling link? */
bool fixture_exists(const char *path);
/* Write a file, and replace an existing one. */
void fixture_write(const char *path, const void *data, size_t bytes);
void fixture_write_text(const char *path, const char *text);
/* The content of a file; the caller frees it. */
uint8_t *fixture_read(const char *path, size_t *bytes_out);

#endif
