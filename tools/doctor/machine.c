/* Reads lines, numbers and lists from files of /proc and /sys. */
#include "tools/doctor/machine.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "stage/cpus.h"
#include "stage/text/decimal.h"

#define LINE_BYTES 8192u        /* the flags of a CPU have about 2,000 */

static FILE *__attribute__((format(printf, 2, 0)))
open_under(const struct machine *machine, const char *path, va_list arguments)
{
    char full[PATH_MAX];
    const int root_bytes = snprintf(full, sizeof(full), "%s/", machine->root);
    if (root_bytes >= (int)sizeof(full))
        return NULL;
    const int bytes = vsnprintf(full + root_bytes, sizeof(full) - (size_t)root_bytes, path, arguments);
    return bytes < (int)sizeof(full) - root_bytes ? fopen(full, "re") : NULL;
}

static FILE *__attribute__((format(printf, 2, 3))) open_file(const struct machine *machine, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    FILE *const file = open_under(machine, path, arguments);
    va_end(arguments);
    return file;
}

static bool __attribute__((format(printf, 4, 0)))
read_line(const struct machine *machine, char *line, size_t line_size, const char *path, va_list arguments)
{
    FILE *const file = open_under(machine, path, arguments);
    if (file == NULL)
        return false;
    const bool is_read = fgets(line, (int)line_size, file) != NULL;
    fclose(file);
    if (is_read)
        line[strcspn(line, "\n")] = '\0';
    return is_read;
}

bool machine_line(const struct machine *machine, char *line, size_t line_size, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    const bool is_read = read_line(machine, line, line_size, path, arguments);
    va_end(arguments);
    return is_read;
}

bool machine_number(const struct machine *machine, uint64_t *number_out, const char *path, ...)
{
    char line[64];
    va_list arguments;
    va_start(arguments, path);
    const bool is_read = read_line(machine, line, sizeof(line), path, arguments);
    va_end(arguments);
    return is_read && decimal_u64_start(line, number_out) != NULL;
}

/* Where the value in the line "KEY: VALUE" begins; NULL if the line has another key. */
static const char *find_value(const char *line, const char *key)
{
    const size_t key_bytes = strlen(key);
    if (strncmp(line, key, key_bytes) != 0)
        return NULL;
    const char *const colon = line + key_bytes + strspn(line + key_bytes, " \t");
    return *colon == ':' ? colon + 1 + strspn(colon + 1, " \t") : NULL;
}

bool machine_row(const struct machine *machine, const char *path, const char *key, char *text, size_t text_size)
{
    FILE *const file = open_file(machine, "%s", path);
    char line[LINE_BYTES];
    const char *value = NULL;
    while (file != NULL && value == NULL && fgets(line, sizeof(line), file) != NULL)
        value = find_value(line, key);
    if (value != NULL)
        snprintf(text, text_size, "%.*s", (int)strcspn(value, "\n"), value);
    if (file != NULL)
        fclose(file);
    return value != NULL;
}

bool machine_row_number(const struct machine *machine, const char *path, const char *key, uint64_t *number_out)
{
    char text[64];
    return machine_row(machine, path, key, text, sizeof(text)) && decimal_u64_start(text, number_out) != NULL;
}

bool machine_list(const struct machine *machine, cpu_set_t *set_out, const char *path, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, path);
    const bool is_read = read_line(machine, line, sizeof(line), path, arguments);
    va_end(arguments);
    return is_read && cpu_list_parse(line, set_out);
}
