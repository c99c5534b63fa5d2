/* Folders full of files: copied, removed, looked at one file after the other. */
#ifndef PIPETRAIN_TEST_TREE_H
#define PIPETRAIN_TEST_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* A file's content. */
struct content {
    char *bytes;        /* with a terminator behind them; NULL: there is no such file */
    size_t count;
};

/* Copy a folder and all in it to a place where nothing is. 0 or a negative errno. */
int tree_copy(const char *from, const char *to);
/* As tree_copy, into a folder that is there and empty. */
int tree_copy_into(const char *from, const char *to);
/* Whatever of it is there. */
void tree_remove(const char *path);
/* Called with the path of every regular file below `path`, from there on ("runs/a/x"), until it does
 * not return 0, which is what this returns. */
int tree_visit(const char *path, int (*visit)(void *arg, const char *file), void *arg);

struct content content_read(const char *folder, const char *file);
void content_release(struct content *content);
bool content_equal(const struct content *a, const struct content *b);
/* Write to a file that exists, such as one of the system's. 0 or a negative errno. */
int text_write(const char *path, const char *text);

#endif
