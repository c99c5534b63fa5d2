/* Looking into JSON that may hold anything. */
#ifndef PIPETRAIN_LOOK_H
#define PIPETRAIN_LOOK_H

#include <stdbool.h>

#include <jansson.h>

/* Is there a value, and is it of this type? */
bool look_is(const json_t *value, json_type type);
/* A number, NAN where the value is none. */
double look_number(const json_t *value);
/* The value at the end of keys one within the other, ended by a NULL; NULL where there is none, or null. */
const json_t *look_at(const json_t *object, const char *const *path);
double look_number_at(const json_t *object, const char *const *path);

#endif
