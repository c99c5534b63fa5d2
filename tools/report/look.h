/* Looking into JSON that may hold anything. */
#ifndef PIPETRAIN_LOOK_H
#define PIPETRAIN_LOOK_H

#include <stdbool.h>

#include <jansson.h>

/* A text as JSON, which the caller owns then. `flags` are json_loadb's, and so is what *told_out says. 0; -EBADMSG
 * where it is none; -ENOMEM. */
int look_parse(const char *text, size_t bytes, size_t flags, json_t **value_out, json_error_t *told_out);
/* Is there a value, and is it of this type? */
bool look_is(const json_t *value, json_type type);
/* A number, NAN where the value is none. */
double look_number(const json_t *value);
/* The value at the end of keys one within the other, ended by a NULL; NULL where there is none, or null. */
const json_t *look_at(const json_t *object, const char *const *path);
double look_number_at(const json_t *object, const char *const *path);

#endif
