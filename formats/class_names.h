/* The names of a data set's classes, from the lists that are stored with shards (doc/formats.md). */
#ifndef PIPETRAIN_CLASS_NAMES_H
#define PIPETRAIN_CLASS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLASS_NAMES_BYTES_MAX ((size_t)16 << 20)        /* longer files are not read */
#define CLASS_NAMES_MAX ((uint32_t)1 << 20)

struct class_names {
    char *text;                 /* the memory of all names */
    const char **names;         /* the name of each class; "" for a class without a name */
    uint32_t *by_name;          /* the classes, sorted bytewise by name */
    uint32_t count;
};

/* Read a list of names, one a line: line k (from 0, without empty lines) names class k. If every line begins with a
 * number and a colon, lines are INDEX:NAME; a blank after the colon is no part of the name if every line has one. Lines
 * "INDEX NAME" are read as INDEX:NAME if the numbers are 0, 1, 2, ... or 1, 2, 3, ..., in any order, unless two names
 * would be equal. Lines end with \n or \r\n; a byte order mark of UTF-8 is skipped. Names may be equal. Comments and
 * other formats (label maps, JSON, YAML, tables, quoted names, class numbers after the names) are refused. 0, -ENOMEM,
 * or -EBADMSG with the reason in problem_out. */
int class_names_read(struct class_names *names_out, const char *text, size_t bytes, char *problem_out,
                     size_t problem_size);
/* Make a list from `count` names: names[0] is the name of class `shift`; names of negative classes are left out. 0 or
 * -ENOMEM. */
int class_names_make(struct class_names *names_out, const char *const *names, uint32_t count, int32_t shift);
/* Find the class with this name. 0; -ENOENT if no class has it; -ENOTUNIQ if several classes have it. */
int class_names_find(const struct class_names *names, const uint8_t *name, size_t bytes, uint32_t *class_out);
/* Does a class have different names in the two lists? Classes that have no name in one of the lists do not count. */
bool class_names_differ(const struct class_names *a, const struct class_names *b);
/* Accepts a struct of zeros. */
void class_names_release(struct class_names *names);

#endif
