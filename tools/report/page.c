/* Puts the data into the template. The build makes page_html.inc of page.html, a string for each line. */
#include "tools/report/page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/lib/config/options.h"
#include "tools/lib/version.h"
#include "tools/report/report_input.h"

static const char *const template_lines[] = {
#include "tools/report/page_html.inc"
};

/* '<' occurs in strings only. Escaped, nothing in them can end the script element that holds the JSON. */
static int write_escaped(const char *text, size_t bytes, void *out)
{
    while (bytes > 0) {
        const char *const bracket = memchr(text, '<', bytes);
        const size_t plain = bracket != NULL ? (size_t)(bracket - text) : bytes;
        fwrite(text, 1, plain, out);
        if (bracket == NULL)
            return 0;
        fputs("\\u003c", out);
        text += plain + 1;
        bytes -= plain + 1;
    }
    return 0;
}

/* Does the value of an option that nobody sets, "" or 0, mean that something else decides? A weight decay of 0 is one that
 * is used. */
static bool means_unset(const struct option_row *option)
{
    return (*option->initial == '\0' || strcmp(option->initial, "0") == 0) && option->initial_note != NULL &&
           !(option->section == SECTION_TRAIN && strcmp(option->key, "weight_decay") == 0);
}

/* Of every such option its value in run.conf, and who decides. NULL: out of memory. */
static json_t *unset_values(void)
{
    json_t *const unset = json_object();
    int failed = 0;
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        char name[64];
        snprintf(name, sizeof(name), "%s.%s", section_name(option->section), option->key);
        if (means_unset(option))
            failed |= json_object_set_new(unset, name, json_pack("[s, s]", option->initial, option->initial_note));
    }
    if (failed == 0)
        return unset;
    json_decref(unset);
    return NULL;
}

static int write_data(FILE *out, json_t *runs)
{
    char made[64] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL)
        strftime(made, sizeof(made), "%Y-%m-%d %H:%M:%S UTC", &parts);
    json_t *const data = json_pack("{s:s, s:s, s:i, s:o, s:O}", "version", PIPETRAIN_VERSION, "made", made,
                                   "damage_shown_max", (int)REPORT_DAMAGE_SHOWN_MAX, "unset", unset_values(), "runs",
                                   runs);
    const int rc = data == NULL ? -ENOMEM
                   : json_dump_callback(data, write_escaped, out, JSON_COMPACT | JSON_ENSURE_ASCII |
                                        JSON_REAL_PRECISION(9)) != 0 ? -ENOMEM : 0;
    fputc('\n', out);
    json_decref(data);
    return rc;
}

int page_write(FILE *out, json_t *runs)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(template_lines) / sizeof(template_lines[0]) && rc == 0; i++) {
        if (strcmp(template_lines[i], "@DATA@\n") == 0)
            rc = write_data(out, runs);
        else
            fputs(template_lines[i], out);
    }
    return rc;
}
