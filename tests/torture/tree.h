/* Copy, remove and visit folders of files. */
#ifndef PIPETRAIN_TEST_TREE_H
#define PIPETRAIN_TEST_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* A file's content. */
struct content {
    char *bytes;        /* followed by a NUL; NULL: the file cannot be read */
    size_t count;
};

/* Copy a folder and its content; `to` does not exist yet. 0 or a negative errno. */
int tree_copy(const char *from, const char *to);
/* As tree_copy, into an existing empty folder. */
int tree_copy_into(const char *from, const char *to);
/* Remove what there is of it. */
void tree_remove(const char *path);
/* Call `visit` with the relative path ("runs/a/x") of every regular file below `path`, until it returns something other
 * than 0, which is returned. */
int tree_visit(const char *path, int (*visit)(void *arg, const char *file), void *arg);

struct content content_read(const char *folder, const char *file);
void content_release(struct content *content);
bool content_equal(const struct content *a, const struct content *b);
/* Write to a file that exists, such as one of the system's. 0 or a negative errno. */
int text_write(const char *path, const char *text);

#endif
