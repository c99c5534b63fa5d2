/* The JSON writer for reports, manifests and the safetensors header. Used by one thread at a time. Once the buffer has
 * the size of a line, writing more lines allocates nothing. */
#include "formats/json.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/utf8.h"

static bool reserve(struct json *json, size_t more)
{
    if (json->failed)
        return false;
    if (more < json->room - json->bytes)
        return true;

    size_t room = json->room < 256 ? 256 : json->room;
    while (room - json->bytes <= more)
        room *= 2;
    char *text = realloc(json->text, room);
    if (text == NULL) {
        json->failed = true;
        return false;
    }
    json->text = text;
    json->room = room;
    return true;
}

static void put(struct json *json, const char *text, size_t bytes)
{
    if (!reserve(json, bytes))
        return;
    memcpy(json->text + json->bytes, text, bytes);
    json->bytes += bytes;
    json->text[json->bytes] = '\0';
}

static void put_text(struct json *json, const char *text)
{
    put(json, text, strlen(text));
}

static void put_line_start(struct json *json)
{
    if (!json->indent)
        return;
    put_text(json, "\n");
    for (uint32_t i = 0; i < json->depth; i++)
        put_text(json, "  ");
}

static const char *short_escape(char character)
{
    switch (character) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return NULL;
    }
}

/* Write the first character of `bytes` >= 1 bytes; a byte that is not UTF-8 becomes U+FFFD. Returns the number of bytes
 * read. */
static size_t put_character(struct json *json, const char *at, size_t bytes)
{
    const size_t length = utf8_character_bytes(at, bytes);
    if (length == 0) {
        put_text(json, "\\ufffd");
        return 1;
    }
    const char *escape = short_escape(at[0]);
    if (escape != NULL) {
        put_text(json, escape);
    } else if (utf8_is_control(at, length)) {
        char text[16];
        snprintf(text, sizeof(text), "\\u%04x", (unsigned)utf8_code_point(at, length));
        put_text(json, text);
    } else {
        put(json, at, length);
    }
    return length;
}

static void put_quoted(struct json *json, const char *value)
{
    put_text(json, "\"");
    for (size_t left = strlen(value), done; left > 0; left -= done, value += done)
        done = put_character(json, value, left);
    put_text(json, "\"");
}

/* Write the text before a value: the comma after the previous value, the line break with indentation, and the key. */
static void put_before_value(struct json *json, const char *key)
{
    if (json->needs_comma)
        put_text(json, ",");
    if (json->depth > 0)
        put_line_start(json);
    if (key != NULL) {
        put_quoted(json, key);
        put_text(json, json->indent ? ": " : ":");
    }
    json->needs_comma = true;
}

static void put_value(struct json *json, const char *key, const char *text)
{
    put_before_value(json, key);
    put_text(json, text);
}

static void open_group(struct json *json, const char *key, const char *bracket)
{
    put_value(json, key, bracket);
    json->depth++;
    json->needs_comma = false;
}

static void close_group(struct json *json, const char *bracket)
{
    const bool is_empty = !json->needs_comma;

    json->depth--;
    if (!is_empty)
        put_line_start(json);
    put_text(json, bracket);
    json->needs_comma = true;
}

/* printf writes the locale's decimal point; JSON requires a full stop. */
static void replace_decimal_point(char *text)
{
    const char *point = localeconv()->decimal_point;
    const size_t bytes = strlen(point);
    char *at = strstr(text, point);

    if (at == NULL || strcmp(point, ".") == 0)
        return;
    *at = '.';
    memmove(at + 1, at + bytes, strlen(at + bytes) + 1);
}

void json_init(struct json *json, bool indent)
{
    *json = (struct json){ .indent = indent };
}

void json_release(struct json *json)
{
    free(json->text);
    *json = (struct json){ .indent = json->indent };
}

void json_reset(struct json *json)
{
    json->bytes = 0;
    json->depth = 0;
    json->needs_comma = false;
    json->failed = false;
    if (json->text != NULL)
        json->text[0] = '\0';
}

int json_reserve(struct json *json, size_t bytes)
{
    if (bytes > json->bytes && !reserve(json, bytes - json->bytes))
        return -ENOMEM;
    if (json->text != NULL)
        json->text[json->bytes] = '\0';
    return 0;
}

void json_open_object(struct json *json, const char *key) { open_group(json, key, "{"); }
void json_close_object(struct json *json) { close_group(json, "}"); }
void json_open_array(struct json *json, const char *key) { open_group(json, key, "["); }
void json_close_array(struct json *json) { close_group(json, "]"); }

void json_quoted(struct json *json, const char *key, const char *value)
{
    put_before_value(json, key);
    put_quoted(json, value);
}

void json_u64(struct json *json, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    put_value(json, key, text);
}

void json_double(struct json *json, const char *key, double value)
{
    char text[40];

    if (!isfinite(value)) {
        put_value(json, key, "null");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    replace_decimal_point(text);
    put_value(json, key, text);
}

void json_float(struct json *json, const char *key, float value)
{
    char text[40];

    snprintf(text, sizeof(text), "%.9g", (double)value);
    replace_decimal_point(text);
    put_value(json, key, isfinite(value) ? text : "null");
}

void json_bool(struct json *json, const char *key, bool value)
{
    put_value(json, key, value ? "true" : "false");
}

void json_verbatim(struct json *json, const char *key, const char *value)
{
    put_value(json, key, value);
}

void json_pad(struct json *json, size_t before, size_t bytes)
{
    while ((before + json->bytes) % bytes != 0 && !json->failed)
        put_text(json, " ");
}

const char *json_text(struct json *json)
{
    if (json->failed)
        return NULL;
    return json->text != NULL ? json->text : "";
}
