/* Writing JSON into a growing buffer: numbers in the C locale and the shortest form that reads back equal, strings
 * escaped, NaN and infinities as null. Commas are written automatically. */
#ifndef PIPETRAIN_JSON_H
#define PIPETRAIN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *text;                 /* terminated; owned */
    size_t bytes, room;
    bool indent;                /* one member a line */
    uint32_t depth;
    bool needs_comma, failed;   /* failed: out of memory */
};

void json_init(struct json *json, bool indent);
void json_release(struct json *json);
void json_reset(struct json *json);         /* empty again, memory kept */
/* Make room for `bytes` in all, up to which writing allocates nothing. 0 or -ENOMEM. */
int json_reserve(struct json *json, size_t bytes);
/* `key` is NULL inside arrays and for the outermost value. */
void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);
/* A string; jansson, which JSON is read with, has a function json_string. */
void json_quoted(struct json *json, const char *key, const char *value);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_double(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, bool value);
/* A value that is JSON already. */
void json_verbatim(struct json *json, const char *key, const char *value);
/* Append spaces after a complete value, until it and the `before` bytes before it are a multiple of `bytes`. */
void json_pad(struct json *json, size_t before, size_t bytes);
/* The text, or NULL after a failure. */
const char *json_text(struct json *json);

#endif
