/* jansson's values without its macros, which take pointers for truth values. */
#include "tools/report/look.h"

#include <errno.h>
#include <math.h>

int look_parse(const char *text, size_t bytes, size_t flags, json_t **value_out, json_error_t *told_out)
{
    errno = 0;      /* jansson tells of too little memory only now and then */
    json_t *const value = json_loadb(text, bytes, flags, told_out);
    if (value == NULL)
        return errno == ENOMEM ? -ENOMEM : -EBADMSG;
    *value_out = value;
    return 0;
}

bool look_is(const json_t *value, json_type type)
{
    return value != NULL && json_typeof(value) == type;
}

double look_number(const json_t *value)
{
    return look_is(value, JSON_INTEGER) || look_is(value, JSON_REAL) ? json_number_value(value) : NAN;
}

const json_t *look_at(const json_t *object, const char *const *path)
{
    for (; *path != NULL && object != NULL; path++)
        object = json_object_get(object, *path);
    return look_is(object, JSON_NULL) ? NULL : object;
}

double look_number_at(const json_t *object, const char *const *path)
{
    return look_number(look_at(object, path));
}
