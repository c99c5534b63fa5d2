/* Damaged records, and the settings as they were. */
#include <inttypes.h>
#include <string.h>

#include "tools/config/number.h"
#include "tools/report/draw/html.h"
#include "tools/report/look.h"
#include "tools/report/page.h"

static void write_text_cell(FILE *out, const json_t *record, const char *key)
{
    const char *const text = json_string_value(json_object_get(record, key));
    fputs("<td>", out);
    html_text(out, text != NULL ? text : "-");
    fputs("</td>", out);
}

static void write_number_cell(FILE *out, const json_t *record, const char *key)
{
    const json_t *const value = json_object_get(record, key);
    if (look_is(value, JSON_INTEGER))
        fprintf(out, "<td>%" JSON_INTEGER_FORMAT "</td>", json_integer_value(value));
    else
        fputs("<td>-</td>", out);
}

static void write_record(FILE *out, const json_t *record)
{
    fputs("<tr>", out);
    write_text_cell(out, record, "set");
    write_text_cell(out, record, "path");
    write_number_cell(out, record, "record");
    write_number_cell(out, record, "offset");
    write_number_cell(out, record, "count");
    write_text_cell(out, record, "problem");
    fputs("</tr>\n", out);
}

static void write_damage(const struct page *page, const struct shown_run *run)
{
    const size_t listed = json_array_size(run->damage);
    fputs("<h3>", page->out);
    page_name(page, run);
    fprintf(page->out, ": %s record%s</h3>\n", number_grouped(run->damage_count).text,
            run->damage_count == 1 ? "" : "s");
    if (listed > 0)
        fputs("<div class=\"scroll\"><table><thead><tr><th>set</th><th>shard</th><th>record</th><th>at byte</th>"
              "<th>records</th><th>problem</th></tr></thead><tbody>\n", page->out);
    for (size_t i = 0; i < listed; i++)
        write_record(page->out, json_array_get(run->damage, i));
    if (listed > 0)
        fputs("</tbody></table></div>\n", page->out);
    if (listed == DAMAGE_SHOWN_MAX)
        fprintf(page->out, "<p class=\"soft\">The first %u places; all are in the run's quarantine.jsonl.</p>\n",
                DAMAGE_SHOWN_MAX);
}

void page_damage(const struct page *page)
{
    bool is_any = false;
    for (uint32_t i = 0; i < page->run_count; i++) {
        if (page->runs[i].damage_count == 0)
            continue;
        if (!is_any)
            fputs("<h2>Damaged records</h2>\n", page->out);
        is_any = true;
        write_damage(page, &page->runs[i]);
    }
}

void page_sources(const struct page *page)
{
    fputs("<h2>Settings</h2>\n", page->out);
    for (uint32_t i = 0; i < page->run_count; i++) {
        fputs("<details><summary>", page->out);
        page_name(page, &page->runs[i]);
        fputs(": run.conf</summary><pre>", page->out);
        html_text(page->out, page->runs[i].conf != NULL ? page->runs[i].conf : "There is none.");
        fputs("</pre></details>\n", page->out);
    }
}
