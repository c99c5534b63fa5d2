/* The names of a data set's classes, as files beside shards list them (doc/formats.md). */
#ifndef PIPETRAIN_CLASS_NAMES_H
#define PIPETRAIN_CLASS_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define CLASS_NAMES_BYTES_MAX ((size_t)16 << 20)        /* longer files are not read */
#define CLASS_NAMES_MAX ((uint32_t)1 << 20)

struct class_names {
    char *text;                 /* that the names lie in */
    const char **names;         /* of each class; "" where none is given */
    uint32_t *by_name;          /* the classes in the bytewise order of their names */
    uint32_t count;
};

/* Read a list of names: a line each, where line k (from 0, empty lines not counted) names class k; or, where every
 * line begins with a number and a colon, INDEX:NAME. Lines end with \n or \r\n. Names may be equal. 0, or -EBADMSG
 * with a text that says what is wrong with it, or -ENOMEM. */
int class_names_read(struct class_names *names_out, const char *text, size_t bytes, char *problem_out,
                     size_t problem_size);
/* The class with this name. 0, -ENOENT where none has it, -ENOTUNIQ where several have. */
int class_names_find(const struct class_names *names, const uint8_t *name, size_t bytes, uint32_t *class_out);
/* Accepts a struct of zeros. */
void class_names_release(struct class_names *names);

#endif
