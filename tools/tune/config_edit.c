/* Editing line by line, in memory; then a copy of the old file and an atomic replacement. */
#include "tools/tune/config_edit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/file/whole_file.h"
#include "stage/text/text_stream.h"
#include "tools/lib/config/config.h"

#define BLANKS " \t\r"
#define BACKUPS_MAX 1000
#define CHANGES_MAX 16u

/* A part of the text, without a terminating NUL. */
struct words { const char *begin; size_t bytes; };

struct line {
    struct words all;           /* without the newline */
    struct words section;       /* the section that contains the line or, if is_section, begins with it */
    bool is_section;            /* the line is a section header, "[section]" */
};

static struct words trim(struct words words)
{
    while (words.bytes > 0 && strchr(BLANKS, *words.begin) != NULL) {
        words.begin++;
        words.bytes--;
    }
    while (words.bytes > 0 && strchr(BLANKS, words.begin[words.bytes - 1]) != NULL)
        words.bytes--;
    return words;
}

static bool is_word(struct words words, const char *text)
{
    return words.bytes == strlen(text) && memcmp(words.begin, text, words.bytes) == 0;
}

/* Parse the line at `text`; `section` is the section of the line before it. Returns the start of the next line, NULL
 * at the end of the text. */
static const char *next_line(const char *text, struct words section, struct line *line_out)
{
    if (*text == '\0')
        return NULL;
    const size_t bytes = strcspn(text, "\n");
    const struct words trimmed = trim((struct words){ text, bytes });
    const char *const close = trimmed.bytes > 0 ? memchr(trimmed.begin, ']', trimmed.bytes) : NULL;
    *line_out = (struct line){ .all = { text, bytes }, .section = section };
    if (trimmed.bytes > 0 && *trimmed.begin == '[' && close != NULL) {
        line_out->is_section = true;
        line_out->section = trim((struct words){ trimmed.begin + 1, (size_t)(close - trimmed.begin) - 1 });
    }
    return text + bytes + (text[bytes] == '\n');
}

static bool sets(const struct line *line, const struct config_change *change)
{
    const char *const equals = memchr(line->all.begin, '=', line->all.bytes);
    return !line->is_section && equals != NULL && is_word(line->section, change->section) &&
           is_word(trim((struct words){ line->all.begin, (size_t)(equals - line->all.begin) }), change->key);
}

/* Write the line with another value. The old value is a number or a word, so it contains no comment mark, even if
 * quoted. */
static void write_changed(FILE *out, const struct line *line, const struct config_change *change)
{
    const char *const end = line->all.begin + line->all.bytes;
    const char *at = memchr(line->all.begin, '=', line->all.bytes);
    at++;
    while (at < end && strchr(BLANKS, *at) != NULL)
        at++;
    fwrite(line->all.begin, 1, (size_t)(at - line->all.begin), out);
    fputs(change->value, out);
    while (at < end && *at != '#' && *at != ';')
        at++;
    const bool has_comment = at < end;
    while (at > line->all.begin && strchr(BLANKS, at[-1]) != NULL)      /* blanks before the comment stay */
        at--;
    if (has_comment || at < end)
        fwrite(at, 1, (size_t)(end - at), out);
}

struct edit {
    const struct config_change *changes;
    size_t count;
    bool is_done[CHANGES_MAX];
};

/* Write the text with the changed values of keys that it sets. */
static void change_lines(struct edit *edit, const char *text, FILE *out)
{
    struct line line = { 0 };
    struct words section = { "", 0 };
    for (const char *next; (next = next_line(text, section, &line)) != NULL; text = next) {
        size_t i = 0;
        section = line.section;
        while (i < edit->count && !sets(&line, &edit->changes[i]))
            i++;
        if (i < edit->count)
            write_changed(out, &line, &edit->changes[i]);
        else
            fwrite(line.all.begin, 1, line.all.bytes, out);
        if (next[-1] == '\n')
            fputc('\n', out);
        if (i < edit->count)
            edit->is_done[i] = true;
    }
}

static bool has_content(struct words words)
{
    const struct words trimmed = trim(words);
    return trimmed.bytes > 0 && *trimmed.begin != '#' && *trimmed.begin != ';';
}

/* The end of the section's last line that is neither blank nor a comment: comments after it may belong to the next
 * section. NULL if there is no such section. */
static const char *section_end(const char *text, const char *name)
{
    const char *end = NULL;
    struct line line = { 0 };
    struct words section = { "", 0 };
    for (const char *next; (next = next_line(text, section, &line)) != NULL; text = next) {
        section = line.section;
        if (is_word(section, name) && has_content(line.all))
            end = next;
    }
    return end;
}

/* Returns the text with one more line, NULL if out of memory. Frees `text`. */
static char *add_line(char *text, const struct config_change *change)
{
    char *made = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&made, &bytes);
    if (out != NULL) {
        const char *const end = section_end(text, change->section);
        const char *const at = end != NULL ? end : text + strlen(text);
        fwrite(text, 1, (size_t)(at - text), out);
        if (at > text && at[-1] != '\n')
            fputc('\n', out);
        if (end == NULL)
            fprintf(out, "%s[%s]\n", at > text ? "\n" : "", change->section);
        fprintf(out, "%s = %s\n%s", change->key, change->value, at);
        (void)text_stream_end(out, &made);
    }
    free(text);
    return made;
}

char *config_edit_text(const char *text, const struct config_change *changes, size_t count)
{
    struct edit edit = { .changes = changes, .count = count < CHANGES_MAX ? count : CHANGES_MAX };
    char *made = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&made, &bytes);
    if (out == NULL)
        return NULL;
    change_lines(&edit, text, out);
    if (text_stream_end(out, &made) != 0)
        return NULL;
    for (size_t i = 0; i < edit.count && made != NULL; i++)
        if (!edit.is_done[i])
            made = add_line(made, &changes[i]);
    return made;
}

/* Write the old text to a new file. */
static int back_up(const char *path, const char *text, mode_t mode, char backup_out[CONFIG_BACKUP_SIZE])
{
    int fd = -1;
    for (int i = 1; i <= BACKUPS_MAX && fd < 0; i++) {
        if (i == 1)
            snprintf(backup_out, CONFIG_BACKUP_SIZE, "%s.bak", path);
        else
            snprintf(backup_out, CONFIG_BACKUP_SIZE, "%s.bak-%d", path, i);
        fd = open(backup_out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST)
            return -errno;
    }
    const struct file_part part = { text, strlen(text) };
    const int rc = fd >= 0 ? whole_file_fill(fd, &part, 1) : -EEXIST;
    if (rc != 0 && fd >= 0)
        unlink(backup_out);
    return rc;
}

/* Replace the file; `path` contains no links. */
static int replace_file(const char *path, const char *text, mode_t mode)
{
    char folder[PATH_MAX];
    const char *name;
    if (folder_of_file(path, folder, sizeof(folder), &name) != 0)
        return -ENAMETOOLONG;
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    const struct file_part part = { text, strlen(text) };
    int rc = whole_file_prepare(directory, name, &part, 1);
    if (rc == 0)
        rc = whole_file_appear(directory, name);
    if (rc == 0 && fchmodat(directory, name, mode, 0) != 0)
        rc = -errno;
    if (rc == 0)
        rc = whole_file_sync_names(directory);
    whole_file_drop(directory, name);
    close(directory);
    return rc;
}

/* The file is replaced by a new one, for which write permission of its folder is enough: without this check, a
 * read-only file would be changed. For root, access() does not look at the permissions. */
bool config_edit_is_read_only(const char *path)
{
    struct stat status;
    return (stat(path, &status) == 0 && (status.st_mode & 0222) == 0) || access(path, W_OK) != 0;
}

int config_edit_file(const char *path, const struct config_change *changes, size_t count,
                     char backup_out[CONFIG_BACKUP_SIZE])
{
    char real[PATH_MAX], *text = NULL;
    struct stat status;
    size_t bytes;
    if (realpath(path, real) == NULL || stat(real, &status) != 0)
        return -errno;
    if (config_edit_is_read_only(real))
        return -EACCES;
    int rc = file_load(real, CONFIG_FILE_MAX, &text, &bytes);
    if (rc != 0)
        return rc;
    const mode_t mode = status.st_mode & 07777;
    char *const changed = config_edit_text(text, changes, count);
    rc = changed != NULL ? back_up(real, text, mode, backup_out) : -ENOMEM;
    if (rc == 0)
        rc = replace_file(real, changed, mode);
    free(changed);
    free(text);
    return rc;
}
