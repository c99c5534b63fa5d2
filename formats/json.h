/* Writing JSON into a growing buffer: numbers in the C locale, with the fewest digits that parse to the same value;
 * strings escaped; NaN and infinities as null. Commas are written automatically. */
#ifndef PIPETRAIN_JSON_H
#define PIPETRAIN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *text;                 /* zero-terminated; owned */
    size_t bytes, room;
    bool indent;                /* one member per line */
    uint32_t depth;
    bool needs_comma, failed;   /* failed: out of memory */
};

void json_init(struct json *json, bool indent);
void json_release(struct json *json);
void json_reset(struct json *json);         /* discard the text, keep the memory */
/* Reserve `bytes` for the whole text, so that writing up to this size allocates nothing. 0 or -ENOMEM. */
int json_reserve(struct json *json, size_t bytes);
/* `key` is NULL inside arrays and for the outermost value. */
void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);
/* Write a string. Not named json_string, as jansson, the JSON reader, has a function of that name. */
void json_quoted(struct json *json, const char *key, const char *value);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_double(struct json *json, const char *key, double value);
/* Write 9 digits without trailing zeros, which parse to the same float. */
void json_float(struct json *json, const char *key, float value);
void json_bool(struct json *json, const char *key, bool value);
/* Write a value that is already JSON. */
void json_verbatim(struct json *json, const char *key, const char *value);
/* Append spaces after a complete value until the text, with `before` bytes in front of it, is a multiple of `bytes`
 * long. */
void json_pad(struct json *json, size_t before, size_t bytes);
/* The text; NULL if an allocation failed. */
const char *json_text(struct json *json);

#endif
