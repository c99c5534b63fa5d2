/* Long options by their whole names. Called once by main, before any thread. */
#include "tools/config/long_option.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/names.h"

#define NAME_BYTES 64

static const struct option *find_row(const struct option *rows, const char *name)
{
    for (; rows->name != NULL; rows++)
        if (strcmp(rows->name, name) == 0)
            return rows;
    return NULL;
}

/* The option that `name` begins or is near to, NULL: none. */
static const char *meant_by(const struct option *rows, const char *name)
{
    struct nearest nearest = { .name = name };
    for (const struct option *row = rows; row->name != NULL; row++)
        nearest_offer(&nearest, row->name, row->name);
    for (const struct option *row = rows; nearest.best == NULL && row->name != NULL; row++)
        if (strncmp(row->name, name, strlen(name)) == 0)
            nearest.best = row->name;
    return nearest.best;
}

static int unknown(const struct option *rows, const char *name)
{
    const char *const meant = meant_by(rows, name);
    if (meant != NULL)
        log_message(LOG_ERROR, "there is no option '--%s' (did you mean '--%s'? --help shows the usage)", name, meant);
    else
        log_message(LOG_ERROR, "there is no option '--%s' (--help shows the usage)", name);
    return -EINVAL;
}

/* One word. *has_value_out: the next word is its value. */
static int check_word(const struct option *rows, const char *word, bool *has_value_out)
{
    if (word[0] == '-' && word[1] >= '0' && word[1] <= '9') {
        log_message(LOG_ERROR, "'%s' is no option, and no number here is negative (--help shows the usage)", word);
        return -EINVAL;
    }
    if (strncmp(word, "--", 2) != 0)
        return 0;
    char name[NAME_BYTES];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const struct option *const row = find_row(rows, name);
    if (row == NULL)
        return unknown(rows, name);
    *has_value_out = row->has_arg == required_argument && strchr(word, '=') == NULL;
    return 0;
}

int long_option_check(int argc, char **argv, const struct option *rows)
{
    bool is_value = false;
    for (int i = 1; i < argc; i++) {
        if (is_value) {
            is_value = false;
            continue;
        }
        if (strcmp(argv[i], "--") == 0)
            return 0;
        const int rc = check_word(rows, argv[i], &is_value);
        if (rc != 0)
            return rc;
    }
    return 0;
}
