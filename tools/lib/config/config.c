/* Parse the configuration file and --set into section, key and value; options.c parses the values by the option
 * table. */
#include "tools/lib/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/text/utf8.h"
#include "tools/lib/config/hints.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings_model.h"

/* ---- a text file or pipe ---- */

/* Read some bytes. Returns their number, 0 at the end, or a negative errno: -EAGAIN (try again), -ETIMEDOUT if a pipe
 * or a terminal has no data. */
static ssize_t read_available(int fd, char *text, size_t room)
{
    struct pollfd there = { .fd = fd, .events = POLLIN };
    const int ready = poll(&there, 1, CONFIG_TEXT_WAIT_SECONDS * 1000);
    if (ready == 0)
        return -ETIMEDOUT;
    const ssize_t bytes = ready < 0 ? -1 : read(fd, text, room);
    return bytes >= 0 ? bytes : errno == EINTR ? -EAGAIN : -errno;
}

/* Read to the end, or until the buffer is full. */
static int read_whole(int fd, char *text, size_t room, size_t *bytes_out)
{
    ssize_t bytes = -EAGAIN;
    *bytes_out = 0;
    while ((bytes > 0 || bytes == -EAGAIN) && *bytes_out < room) {
        bytes = read_available(fd, text + *bytes_out, room - *bytes_out);
        *bytes_out += bytes > 0 ? (size_t)bytes : 0;
    }
    return bytes < 0 ? (int)bytes : 0;
}

/* Read the whole file into a block from malloc. 0, or a negative errno (-EFBIG: over `most` bytes). Opening a pipe
 * without a writer does not block. */
static int read_file(const char *path, size_t most, char **text_out, size_t *bytes_out)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char *text = malloc(most + 1);
    int rc = text == NULL ? -ENOMEM : read_whole(fd, text, most + 1, bytes_out);
    if (rc == 0 && *bytes_out > most)
        rc = -EFBIG;
    close(fd);
    if (rc != 0) {
        free(text);
        return rc;
    }
    *text_out = text;
    return 0;
}

static void report_unread(const char *path, int rc, size_t most, const char *what, struct problems *problems)
{
    char folder[PATH_MAX];
    const bool is_relative = rc == -ENOENT && *path != '/' && getcwd(folder, sizeof(folder)) != NULL;
    if (rc == -EFBIG)
        problems_add(problems, path, "is larger than %zu bytes: this is not a %s", most, what);
    else if (rc == -ETIMEDOUT)
        problems_add(problems, path, "no data for %d s, and no end", CONFIG_TEXT_WAIT_SECONDS);
    else if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: cannot be read: %s", path, strerror(-rc));
    else
        problems_add(problems, path, "cannot be read: %s%s%s%s", strerror(-rc),
                     is_relative ? " in the current folder, " : "", is_relative ? folder : "",
                     is_relative ? ", to which paths are relative" : "");
}

int config_text_read(const char *path, size_t most, const char *what, char **text_out, size_t *bytes_out,
                   struct problems *problems)
{
    const int rc = read_file(path, most, text_out, bytes_out);
    if (rc == 0)
        return 0;
    report_unread(path, rc, most, what, problems);
    return rc == -ENOMEM ? rc : -ENODATA;
}

/* ---- lines ---- */

#define BLANKS " \t"

/* The state of the parser. */
struct reader {
    struct settings *settings;
    struct problems *problems;
    const char *name;           /* name of the file, for messages */
    uint32_t line;
    bool in_section;            /* after a [section] line, known or not */
    enum section section;       /* SECTION_COUNT: unknown, keys are skipped */
    char where[512];            /* "name:line" */
};

/* The position of an assignment: a line of the file, or the command line (line 0). */
struct place { const char *where; enum origin origin; uint32_t line; };

static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    size_t length = strlen(text);
    while (length > 0 && strchr(BLANKS, text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    return text;
}

static bool is_comment(const char *text)
{
    return *text == '#' || *text == ';';
}

/* Find the section of this name. If there is none, a problem is added, and the section that was probably meant, or
 * SECTION_COUNT, is returned. */
static enum section find_section(struct problems *problems, const char *where, const char *name)
{
    enum section section = section_find(name);
    if (section == SECTION_COUNT) {
        char hint[CONFIG_HINT_SIZE];
        section = config_hint_section(name, hint, sizeof(hint));
        problems_add(problems, where, "unknown section [%.80s]%s", name, hint);
    }
    return section;
}

/* Assign a value to a key of a known section. 0 (with problems added) or -ENOMEM. */
static int assign(struct settings *settings, struct problems *problems, const struct place *place,
                  enum section section, const char *key, const char *value)
{
    const struct option_row *option = option_find(section, key);
    if (option == NULL) {
        char hint[CONFIG_HINT_SIZE];
        config_hint_key(settings, section, key, hint, sizeof(hint));
        problems_add(problems, place->where, "unknown key '%.80s' in [%s]%s", key, section_name(section), hint);
        return 0;
    }
    if (settings->only_feeds && !option_is_of_feeds(option)) {
        problems_add(problems, place->where, "is none of a feed: %s",
                     option->not_of_feeds != NULL ? option->not_of_feeds : "it reads images and trains nothing");
        return 0;
    }
    struct option_origin *origin = &settings->origins[option_index(option)];
    if (place->origin == ORIGIN_FILE && origin->origin == ORIGIN_FILE) {
        problems_add(problems, place->where, "duplicate key '%s' in [%s] (first in line %u)", key,
                     section_name(section), (unsigned)origin->line);
        return 0;
    }
    char problem[512];
    const int rc = option_parse(option, settings, value, problem, sizeof(problem));
    *origin = (struct option_origin){ place->origin, place->line, rc != 0 };
    if (rc == -EINVAL && place->origin == ORIGIN_COMMAND)
        problems_add(problems, place->where, "%s", problem);    /* place->where contains the key */
    else if (rc == -EINVAL)
        problems_add(problems, place->where, "%s: %s", key, problem);
    return rc == -ENOMEM ? -ENOMEM : 0;
}

/* Remove the quotes in place; the text then begins at `value`. Returns NULL, or the problem. */
static const char *unquote(char *value)
{
    char *out = value;
    const char *in = value + 1;
    for (; *in != '"'; in++) {
        if (*in == '\\') {
            in++;
            if (*in != '"' && *in != '\\')
                return "in quotes, '\\' may stand only before '\"' and '\\'";
        }
        if (*in == '\0')
            return "the closing quote is missing";
        *out++ = *in;
    }
    const char *rest = in + 1 + strspn(in + 1, BLANKS);
    const bool is_apart = rest > in + 1;
    *out = '\0';
    return *rest == '\0' || (is_comment(rest) && is_apart) ? NULL : "there is text after the closing quote";
}

/* Remove a comment. It begins with '#' or ';' at the start or after white space. */
static void cut_comment(char *text)
{
    for (char *byte = text; *byte != '\0'; byte++)
        if (is_comment(byte) && (byte == text || strchr(BLANKS, byte[-1]) != NULL)) {
            *byte = '\0';
            return;
        }
}

static int read_assignment(struct reader *reader, char *line)
{
    char *equals = strchr(line, '=');
    if (equals != NULL)
        *equals = '\0';
    const size_t key_bytes = strlen(line);
    cut_comment(line);
    if (equals == NULL || strlen(line) != key_bytes) {
        problems_add(reader->problems, reader->where, "'=' is missing after '%.80s'", trim(line));
        return 0;
    }
    const char *key = trim(line);
    char *value = trim(equals + 1);
    const char *problem = *key == '\0' ? "the key before '=' is missing" : NULL;
    if (problem == NULL && *value == '"')
        problem = unquote(value);
    else {
        cut_comment(value);
        value = trim(value);
    }
    if (problem != NULL) {
        problems_add(reader->problems, reader->where, "%s", problem);
        return 0;
    }
    if (!reader->in_section) {
        char hint[CONFIG_HINT_SIZE];
        config_hint_key(reader->settings, SECTION_COUNT, key, hint, sizeof(hint));
        problems_add(reader->problems, reader->where, "key '%.80s' comes before the first [section]%s", key, hint);
        return 0;
    }
    if (reader->section == SECTION_COUNT)
        return 0;
    const struct place place = { reader->where, ORIGIN_FILE, reader->line };
    return assign(reader->settings, reader->problems, &place, reader->section, key, value);
}

static void read_section(struct reader *reader, char *line)
{
    reader->in_section = true;
    reader->section = SECTION_COUNT;
    char *end = strchr(line, ']');
    if (end == NULL) {
        problems_add(reader->problems, reader->where, "']' is missing");
        return;
    }
    const char *rest = trim(end + 1);
    if (*rest != '\0' && !is_comment(rest)) {
        problems_add(reader->problems, reader->where, "there is text after ']'");
        return;
    }
    *end = '\0';
    reader->section = find_section(reader->problems, reader->where, trim(line + 1));
}

/* Check that the line is text. */
static bool check_bytes(struct reader *reader, const char *line, size_t bytes)
{
    if (bytes > CONFIG_LINE_MAX) {
        problems_add(reader->problems, reader->where, "the line is longer than %u bytes", CONFIG_LINE_MAX);
        return false;
    }
    const char *nul = memchr(line, '\0', bytes);
    if (nul != NULL) {
        problems_add(reader->problems, reader->where, "byte %zu of the line is NUL", (size_t)(nul - line) + 1);
        return false;
    }
    const size_t valid = utf8_valid_bytes(line, bytes);
    if (valid < bytes)
        problems_add(reader->problems, reader->where, "byte %zu of the line (0x%02x) is not UTF-8", valid + 1,
                     (unsigned)(unsigned char)line[valid]);
    return valid == bytes;
}

/* Parse a line without its newline. */
static int read_line(struct reader *reader, const char *text, size_t bytes, char *buffer)
{
    reader->line++;
    snprintf(reader->where, sizeof(reader->where), "%.480s:%u", reader->name, (unsigned)reader->line);
    if (bytes > 0 && text[bytes - 1] == '\r')
        bytes--;
    if (!check_bytes(reader, text, bytes))
        return 0;
    memcpy(buffer, text, bytes);
    buffer[bytes] = '\0';
    char *line = trim(buffer);
    if (*line == '\0' || is_comment(line))
        return 0;
    if (*line != '[')
        return read_assignment(reader, line);
    read_section(reader, line);
    return 0;
}

static int read_lines(struct reader *reader, const char *text, size_t bytes)
{
    char *buffer = malloc(CONFIG_LINE_MAX + 1);
    int rc = buffer == NULL ? -ENOMEM : 0;
    while (rc == 0 && bytes > 0) {
        const char *end = memchr(text, '\n', bytes);
        const size_t line_bytes = end == NULL ? bytes : (size_t)(end - text);
        rc = read_line(reader, text, line_bytes, buffer);
        const size_t used = line_bytes + (end == NULL ? 0 : 1);
        text += used;
        bytes -= used;
    }
    free(buffer);
    return rc;
}

/* The result of reading: -EINVAL if there are new problems. */
static int finish(int result, const char *where, struct problems *problems, size_t problems_before)
{
    if (result == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: %s", where, strerror(ENOMEM));
    return result == 0 && problems->count > problems_before ? -EINVAL : result;
}

static int set_path(struct settings *settings, const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL)
        return -ENOMEM;
    free(settings->config_path);
    settings->config_path = copy;
    return 0;
}

int config_parse(struct settings *settings, const char *name, const char *text, size_t bytes,
                 struct problems *problems)
{
    static const char bom[] = "\xef\xbb\xbf";
    const size_t problems_before = problems->count;
    struct reader reader = { .settings = settings, .problems = problems, .name = name, .section = SECTION_COUNT };
    if (bytes >= 3 && memcmp(text, bom, 3) == 0) {
        text += 3;
        bytes -= 3;
    }
    int rc = set_path(settings, name);
    if (rc == 0)
        rc = read_lines(&reader, text, bytes);
    return finish(rc, name, problems, problems_before);
}

int config_read(struct settings *settings, const char *path, struct problems *problems)
{
    char *text = NULL;
    size_t bytes = 0;
    int rc = config_text_read(path, CONFIG_FILE_MAX, "configuration file", &text, &bytes, problems);
    if (rc != 0)
        return rc;
    rc = config_parse(settings, path, text, bytes, problems);
    free(text);
    return rc;
}

/* Find the section for --set KEY=VALUE, if only one section has the key. */
static int set_key(struct settings *settings, const char *key, const char *value, const struct place *place,
                   struct problems *problems)
{
    const struct option_row *option = NULL;
    char hint[CONFIG_HINT_SIZE], names[256];
    const size_t found = option_find_key(key, &option, names, sizeof(names));
    if (found == 1)
        return assign(settings, problems, place, option->section, option->key, value);
    config_hint_key(settings, SECTION_COUNT, key, hint, sizeof(hint));
    if (found > 1)
        problems_add(problems, place->where, "'%s' is ambiguous: %s", key, names);
    else if (*key == '\0')
        problems_add(problems, place->where, "the key is missing: section.key=value");
    else
        problems_add(problems, place->where, "unknown key '%.80s'%s", key, hint);
    return 0;
}

/* Split the left side of --set in place. */
static int set_named(struct settings *settings, char *name, const char *value, const struct place *place,
                     struct problems *problems)
{
    char *dot = strchr(name, '.');
    if (dot == NULL)
        return set_key(settings, name, value, place, problems);
    *dot = '\0';
    const enum section section = find_section(problems, place->where, name);
    return section == SECTION_COUNT ? 0 : assign(settings, problems, place, section, dot + 1, value);
}

int config_set(struct settings *settings, const char *assignment, struct problems *problems)
{
    const size_t problems_before = problems->count;
    char *copy = strdup(assignment);
    if (copy == NULL)
        return finish(-ENOMEM, assignment, problems, problems_before);
    char *equals = strchr(copy, '=');
    if (equals != NULL)
        *equals = '\0';
    char *name = trim(copy);
    char where[256];
    snprintf(where, sizeof(where), "%s%.200s", settings_prefix(settings), name);
    const struct place place = { where, ORIGIN_COMMAND, 0 };
    int rc = 0;
    if (equals == NULL)
        problems_add(problems, where, "'=' is missing: section.key=value");
    else if (utf8_valid_bytes(equals + 1, strlen(equals + 1)) < strlen(equals + 1))
        problems_add(problems, where, "the value is not UTF-8");
    else
        rc = set_named(settings, name, trim(equals + 1), &place, problems);
    rc = finish(rc, where, problems, problems_before);
    free(copy);
    return rc;
}

int config_collect(struct settings *settings, const struct config_arguments *words, struct problems *problems)
{
    const size_t problems_before = problems->count;
    int rc = words->path != NULL ? config_read(settings, words->path, problems) : 0;
    for (size_t i = 0; i < words->assignments.count && rc != -ENOMEM; i++)
        if (config_set(settings, words->assignments.words[i], problems) == -ENOMEM)
            rc = -ENOMEM;
    return rc == 0 && problems->count > problems_before ? -EINVAL : rc;
}

void config_arguments_release(struct config_arguments *words)
{
    free(words->assignments.words);
    words->assignments = (struct string_list){ .count = 0 };
}
