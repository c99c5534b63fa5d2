/* A reader of XML that knows no more than what our pages use. */
#include "tests/tools/report/markup.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "stage/text/utf8.h"

enum { DEPTH_MAX = 64 };

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
}

static size_t name_bytes(const char *text)
{
    size_t bytes = 0;
    while (is_name(text[bytes]))
        bytes++;
    return bytes;
}

/* Behind the reference at `text`, which is a '&'; NULL where it is none. */
static const char *reference_end(const char *text)
{
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#183;" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(text, names[i], strlen(names[i])) == 0)
            return text + strlen(names[i]);
    return NULL;
}

/* Text up to one of the characters of `ends`. */
static const char *text_end(const char *text, const char *ends)
{
    while (text != NULL && *text != '\0' && strchr(ends, *text) == NULL)
        text = *text == '&' ? reference_end(text) : *text == '<' ? NULL : text + 1;
    return text;
}

/* Attributes up to the end of a tag: at '>' or '/'. */
static const char *attributes_end(const char *text)
{
    while (*text == ' ') {
        const size_t bytes = name_bytes(++text);
        if (bytes == 0 || text[bytes] != '=' || text[bytes + 1] != '"')
            return NULL;
        text = text_end(text + bytes + 2, "\"");
        if (text == NULL || *text != '"')
            return NULL;
        text++;
    }
    return text;
}

struct element { const char *name; size_t bytes; };

struct markup {
    struct element open[DEPTH_MAX];
    size_t depth;
};

/* Behind the tag at `text`, which is a '<'. */
static const char *tag_end(struct markup *markup, const char *text)
{
    const bool is_end = text[1] == '/';
    const char *const name = text + 1 + is_end;
    const size_t bytes = name_bytes(name);
    if (is_end) {
        if (markup->depth == 0 || name[bytes] != '>')
            return NULL;
        const struct element *const last = &markup->open[--markup->depth];
        return last->bytes == bytes && strncmp(last->name, name, bytes) == 0 ? name + bytes + 1 : NULL;
    }
    const char *const end = bytes > 0 ? attributes_end(name + bytes) : NULL;
    if (end == NULL || (*end == '/' && end[1] != '>') || (*end != '/' && *end != '>'))
        return NULL;
    if (*end == '/')
        return end + 2;
    if (markup->depth == DEPTH_MAX)
        return NULL;
    markup->open[markup->depth++] = (struct element){ name, bytes };
    return bytes == 5 && strncmp(name, "style", 5) == 0 ? strstr(end, "</style>") : end + 1;
}

static const char *control_character(const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            return text;
    }
    return NULL;
}

const char *markup_problem(const char *text)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    struct markup markup = { .depth = 0 };
    const size_t valid = utf8_valid_bytes(text, strlen(text));
    if (text[valid] != '\0')
        return text + valid;
    if (control_character(text) != NULL)
        return control_character(text);
    if (strncmp(text, doctype, strlen(doctype)) == 0)
        text += strlen(doctype);
    while (*text != '\0') {
        const char *const next = *text == '<' ? tag_end(&markup, text) : text_end(text, "<");
        if (next == NULL)
            return text;
        text = next;
    }
    return markup.depth == 0 ? NULL : text;
}
