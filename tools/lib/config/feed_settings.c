/* Reads the options of a feed by the option table. Called when a feed is opened. */
#include "tools/lib/config/feed_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/config/config.h"
#include "tools/lib/config/input_checks.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/settings_model.h"

static int read_line(struct settings *settings, const char *text, size_t bytes, struct problems *problems)
{
    char *const line = strndup(text, bytes);
    if (line == NULL)
        return -ENOMEM;
    const int rc = line[strspn(line, " \t")] == '\0' ? 0 : config_set(settings, line, problems);
    free(line);
    return rc;
}

/* Apply all lines, also after a line with a problem. */
static int read_lines(struct settings *settings, const char *text, struct problems *problems)
{
    int rc = 0;
    while (*text != '\0' && rc != -ENOMEM) {
        const size_t bytes = strcspn(text, "\n");
        rc = read_line(settings, text, bytes, problems);
        text += bytes + (text[bytes] == '\n');
    }
    return rc;
}

/* Synthetic images are for measuring how fast a network is trained. */
static void check_source(struct settings *settings, struct problems *problems)
{
    if (settings->input.source == INPUT_SYNTHETIC)
        settings_report(settings, problems, SECTION_INPUT, "source", "a feed reads shards: use real or cached");
}

static void check_order(struct settings *settings, const struct feed_facts *facts, struct problems *problems)
{
    const char *const problem = input_balance_problem(settings);
    input_check_lanes(settings, problems);
    if (problem != NULL)
        settings_report(settings, problems, SECTION_DATA, "balance", problem);
    if (!facts->is_raw)
        input_check_mixing(settings, facts->batch, problems);
}

static void check(struct settings *settings, const struct feed_facts *facts, struct problems *problems)
{
    const struct shape image = { facts->channels, facts->height, facts->width };
    check_source(settings, problems);
    if (!facts->is_evaluation)
        check_order(settings, facts, problems);
    if (facts->is_raw)
        return;
    pixels_choose_scaling(settings);
    pixels_check_resize(settings, image, problems);
    pixels_check_augment(settings, facts->channels, problems);
}

int feed_settings_read(struct settings *settings_out, const char *text, const struct feed_facts *facts,
                       struct problems *problems)
{
    const size_t problems_before = problems->count;
    struct settings settings;
    int rc = settings_init(&settings);
    if (rc == 0) {
        settings.only_feeds = true;
        settings.ranks = facts->ranks;
        rc = text != NULL ? read_lines(&settings, text, problems) : 0;
    }
    if (rc != -ENOMEM)
        check(&settings, facts, problems);
    if (rc == -ENOMEM && problems->count == problems_before)
        problems_add(problems, "", "settings: %s", strerror(ENOMEM));
    if (rc == -ENOMEM || problems->count > problems_before) {
        settings_release(&settings);
        return rc == -ENOMEM ? rc : -EINVAL;
    }
    option_needs_warn(&settings);
    *settings_out = settings;
    return 0;
}

const struct option_row *feed_settings_option(size_t index)
{
    const struct option_row *option = option_table;
    for (; option->key != NULL; option++)
        if (option_is_of_feeds(option) && index-- == 0)
            return option;
    return NULL;
}
