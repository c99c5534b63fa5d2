/* The page from its first to its last line. */
#include "tools/report/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/report/draw/html.h"
#include "tools/report/look.h"
#include "tools/version.h"

static const char *text_of(const struct shown_run *run, const char *key)
{
    const char *const path[] = { key, NULL };
    return json_string_value(look_at(run->summary, path));
}

static void write_title(const struct page *page)
{
    if (page->run_count == 1)
        html_text(page->out, page->runs[0].name);
    else
        fprintf(page->out, "%u runs", page->run_count);
}

static void write_head(const struct page *page)
{
    fputs(PAGE_BEGINS " " PIPETRAIN_VERSION "\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>", page->out);
    write_title(page);
    fprintf(page->out, " - pipetrain report</title>\n<link rel=\"icon\" href=\"data:,\"/>\n<style>\n%s</style></head>\n"
                       "<body>\n", page_style);
}

/* Where it is, how it ended and what limited it. */
static void write_about(const struct page *page, const struct shown_run *run)
{
    static const char *const keys[] = { "model", "device", "ended", "reason" };
    const char *const verdict = text_of(run, "verdict");
    fputs("<div class=\"soft\">", page->out);
    html_text(page->out, run->path);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *const text = text_of(run, keys[i]);
        fputs(text != NULL ? " &#183; " : "", page->out);
        html_text(page->out, text != NULL ? text : "");
    }
    fputs("</div>\n", page->out);
    if (verdict == NULL)
        return;
    fputs("<div>Verdict: ", page->out);
    html_text(page->out, verdict);
    fputs("</div>\n", page->out);
}

static void write_header(const struct page *page)
{
    fputs("<header><h1>", page->out);
    write_title(page);
    fputs("</h1>\n", page->out);
    if (page->run_count == 1) {
        write_about(page, &page->runs[0]);
        page_tiles(page);
    } else {
        fputs("<ol class=\"runs\">\n", page->out);
        for (uint32_t i = 0; i < page->run_count; i++) {
            fputs("<li>", page->out);
            page_name(page, &page->runs[i]);
            write_about(page, &page->runs[i]);
            fputs("</li>\n", page->out);
        }
        fputs("</ol>\n", page->out);
    }
    fputs("</header>\n", page->out);
}

static void write_remarks(const struct page *page, const struct shown_run *run)
{
    for (size_t i = 0; i < run->remarks.count; i++) {
        fputs("<div>", page->out);
        html_text(page->out, run->remarks.texts[i]);
        fputs("</div>\n", page->out);
    }
    if (run->remarks.more > 0)
        fprintf(page->out, "<div>and %zu more</div>\n", run->remarks.more);
}

static void write_all_remarks(const struct page *page)
{
    size_t count = 0;
    for (uint32_t i = 0; i < page->run_count; i++)
        count += page->runs[i].remarks.count + page->runs[i].remarks.more;
    if (count == 0)
        return;
    fputs("<div class=\"warn\"><b>Not all could be read</b>\n", page->out);
    for (uint32_t i = 0; i < page->run_count; i++)
        write_remarks(page, &page->runs[i]);
    fputs("</div>\n", page->out);
}

static void write_foot(const struct page *page)
{
    char time_text[64] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL)
        strftime(time_text, sizeof(time_text), ", %Y-%m-%d %H:%M:%S UTC", &parts);
    fprintf(page->out, "<footer>pipetrain-report " PIPETRAIN_VERSION "%s</footer>\n</body></html>\n", time_text);
}

/* Several runs are compared before anything else. */
static int write_body(const struct page *page)
{
    write_header(page);
    write_all_remarks(page);
    if (page->run_count > 1) {
        page_results(page);
        page_settings(page);
    }
    int rc = page_curves(page);
    if (rc == 0)
        rc = page_times(page);
    fputs(page->run_count == 1 ? "<div class=\"tables\">\n" : "<div>\n", page->out);
    if (page->run_count == 1)
        page_results(page);
    page_plan(page);
    page_environment(page);
    fputs("</div>\n", page->out);
    if (rc == 0)
        rc = page_confusion(page);
    page_damage(page);
    page_sources(page);
    return rc;
}

int page_write(FILE *out, const struct shown_run *runs, uint32_t run_count)
{
    const struct page page = { out, runs, run_count, calloc(run_count, sizeof(struct cell)) };
    if (page.cells == NULL)
        return -ENOMEM;
    write_head(&page);
    const int rc = write_body(&page);
    write_foot(&page);
    free(page.cells);
    return rc;
}
