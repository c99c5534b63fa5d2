/* String literals of Python. */
#include "tools/export/python_text.h"

#include "stage/text/utf8.h"

static void write_character(FILE *out, const char *character, size_t bytes)
{
    if (*character == '"' || *character == '\\')
        fprintf(out, "\\%c", *character);
    else if (utf8_is_control(character, bytes))
        fprintf(out, "\\u%04x", (unsigned)utf8_code_point(character, bytes));
    else
        fwrite(character, 1, bytes, out);
}

void python_literal_write(FILE *out, const char *text, size_t bytes)
{
    fputc('"', out);
    while (bytes > 0) {
        const size_t next = utf8_character_bytes(text, bytes);
        if (next == 0)
            fputs("\\ufffd", out);
        else
            write_character(out, text, next);
        text += next > 0 ? next : 1;
        bytes -= next > 0 ? next : 1;
    }
    fputc('"', out);
}
