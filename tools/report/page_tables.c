/* Tables: a row for what is told, a column for a run. Rows that no run tells are left out. */
#include <string.h>

#include "tools/report/draw/chart.h"
#include "tools/report/draw/html.h"
#include "tools/report/look.h"
#include "tools/report/page.h"

#define PATH_KEYS 4

struct fact {
    const char *name;
    enum cell_form form;
    const char *path[PATH_KEYS];
};
#define COUNT(facts) (sizeof(facts) / sizeof((facts)[0]))

static const struct fact results[] = {
    { "ended", CELL_TEXT, { "ended" } },
    { "because", CELL_TEXT, { "reason" } },
    { "validation accuracy", CELL_SHARE, { "validation", "accuracy" } },
    { "validation loss", CELL_NUMBER, { "validation", "loss" } },
    { "of validation images", CELL_COUNT, { "validation", "images" } },
    { "best validation accuracy", CELL_SHARE, { "best", "accuracy" } },
    { "at step", CELL_COUNT, { "best", "step" } },
    { "training loss", CELL_NUMBER, { "loss" } },
    { "steps", CELL_COUNT, { "steps" } },
    { "epochs", CELL_NUMBER, { "epochs" } },
    { "images", CELL_COUNT, { "images" } },
    { "training time", CELL_SECONDS, { "seconds" } },
    { "images/s", CELL_RATE, { "images_per_second" } },
    { "images/s, with warm-up", CELL_RATE, { "mean_images_per_second" } },
    { "step p50, ms", CELL_NUMBER, { "step_ms", "p50" } },
    { "step p90, ms", CELL_NUMBER, { "step_ms", "p90" } },
    { "step p99, ms", CELL_NUMBER, { "step_ms", "p99" } },
    { "first step after", CELL_SECONDS, { "start_to_first_step_seconds" } },
    { "time in forward", CELL_SHARE, { "fractions", "forward" } },
    { "time in backward", CELL_SHARE, { "fractions", "backward" } },
    { "time in update", CELL_SHARE, { "fractions", "update" } },
    { "exposed copy", CELL_SHARE, { "fractions", "exposed_copy" } },
    { "exposed reduction", CELL_SHARE, { "fractions", "exposed_reduction" } },
    { "input wait", CELL_SHARE, { "fractions", "input_wait" } },
    { "copies hidden", CELL_SHARE, { "copy", "hidden" } },
    { "queue on the host: mean", CELL_NUMBER, { "queues", "ring", "mean" } },
    { "queue on the host: of at most", CELL_COUNT, { "queues", "ring", "depth" } },
    { "queue on the host: found empty", CELL_SHARE, { "queues", "ring", "empty" } },
    { "queue on the device: mean", CELL_NUMBER, { "queues", "slots", "mean" } },
    { "queue on the device: of at most", CELL_COUNT, { "queues", "slots", "depth" } },
    { "queue on the device: found empty", CELL_SHARE, { "queues", "slots", "empty" } },
    { "readers at work", CELL_SHARE, { "loader_busy", "readers" } },
    { "decoders at work", CELL_SHARE, { "loader_busy", "decoders" } },
    { "damaged records", CELL_COUNT, { "corrupt_records" } },
    { "decoder warnings", CELL_COUNT, { "decoder_warnings" } },
    { "skipped steps", CELL_COUNT, { "skipped_steps" } },
    { "rollbacks", CELL_COUNT, { "rollbacks" } },
    { "peak memory", CELL_BYTES, { "memory", "peak_rss_bytes" } },
    { "order of samples", CELL_TEXT, { "sample_order_hash" } },
};

static const struct fact plan[] = {
    { "model", CELL_TEXT, { "model" } },
    { "parameters", CELL_COUNT, { "parameters" } },
    { "device", CELL_TEXT, { "device" } },
    { "towers", CELL_COUNT, { "towers" } },
    { "reduction", CELL_TEXT, { "plan", "mode" } },
    { "batch", CELL_COUNT, { "batch" } },
    { "accumulated batches", CELL_COUNT, { "accumulate" } },
    { "precision", CELL_TEXT, { "precision" } },
    { "optimizer", CELL_TEXT, { "optimizer" } },
    { "learning rate", CELL_TEXT, { "rate" } },
    { "seed", CELL_COUNT, { "seed" } },
    { "steps an epoch", CELL_COUNT, { "plan", "steps_per_epoch" } },
    { "steps in all", CELL_COUNT, { "plan", "steps" } },
    { "readers", CELL_COUNT, { "plan", "read_threads" } },
    { "decoders", CELL_COUNT, { "plan", "decode_threads" } },
    { "threads of a tower", CELL_COUNT, { "plan", "threads_per_tower" } },
    { "cores", CELL_COUNT, { "plan", "cores" } },
    { "batches ahead on the host", CELL_COUNT, { "plan", "prefetch_depth" } },
    { "batches ahead on the device", CELL_COUNT, { "plan", "staging_depth" } },
    { "synthetic images", CELL_TEXT, { "synthetic" } },
    { "training set", CELL_TEXT, { "data", "train", "named" } },
    { "its records", CELL_COUNT, { "data", "train", "records" } },
    { "its shards", CELL_COUNT, { "data", "train", "shards" } },
    { "its fingerprint", CELL_TEXT, { "data", "train", "fingerprint" } },
    { "validation set", CELL_TEXT, { "data", "validation", "named" } },
    { "its records", CELL_COUNT, { "data", "validation", "records" } },
    { "its shards", CELL_COUNT, { "data", "validation", "shards" } },
    { "its fingerprint", CELL_TEXT, { "data", "validation", "fingerprint" } },
    { "planned memory", CELL_BYTES, { "memory", "planned_bytes" } },
    { "of it batches", CELL_BYTES, { "plan", "memory_bytes", "batches" } },
    { "loader", CELL_BYTES, { "plan", "memory_bytes", "loader" } },
    { "large images", CELL_BYTES, { "plan", "memory_bytes", "large_images" } },
    { "slots", CELL_BYTES, { "plan", "memory_bytes", "slots" } },
    { "weights and states", CELL_BYTES, { "plan", "memory_bytes", "weights_and_states" } },
    { "activations", CELL_BYTES, { "plan", "memory_bytes", "activations" } },
    { "workspace", CELL_BYTES, { "plan", "memory_bytes", "workspace" } },
    { "copies of weights", CELL_BYTES, { "plan", "memory_bytes", "copies_of_weights" } },
    { "snapshots", CELL_BYTES, { "plan", "memory_bytes", "snapshots" } },
    { "reduction", CELL_BYTES, { "plan", "memory_bytes", "reduction" } },
    { "results", CELL_BYTES, { "plan", "memory_bytes", "results" } },
    { "trace", CELL_BYTES, { "plan", "memory_bytes", "trace" } },
};

static const struct fact environment[] = {
    { "pipetrain", CELL_TEXT, { "version" } },
    { "began", CELL_TIME, { "began" } },
    { "ended", CELL_TIME, { "end" } },
    { "last row", CELL_TIME, { "last_row" } },
    { "machine", CELL_TEXT, { "host", "name" } },
    { "system", CELL_TEXT, { "host", "system" } },
    { "its release", CELL_TEXT, { "host", "release" } },
    { "architecture", CELL_TEXT, { "host", "machine" } },
    { "processor", CELL_TEXT, { "host", "cpu" } },
    { "devices", CELL_DEVICES, { "devices" } },
};

static const struct fact tiles[] = {
    { "validation accuracy", CELL_SHARE, { "validation", "accuracy" } },
    { "training loss", CELL_NUMBER, { "loss" } },
    { "images/s", CELL_RATE, { "images_per_second" } },
    { "images/s, with warm-up", CELL_RATE, { "mean_images_per_second" } },
    { "ms a step, p50", CELL_NUMBER, { "step_ms", "p50" } },
    { "ms a step, p99", CELL_NUMBER, { "step_ms", "p99" } },
    { "training time", CELL_SECONDS, { "seconds" } },
};

/* A row of the page's cells. `shows_differences` marks it where those that say something are not the same. */
static void write_row(const struct page *page, const char *name, bool shows_differences)
{
    const char *first = NULL;
    bool differs = false;
    for (uint32_t i = 0; i < page->run_count; i++) {
        const char *const text = page->cells[i].text;
        if (first == NULL && *text != '\0')
            first = text;
        differs |= first != NULL && *text != '\0' && strcmp(text, first) != 0;
    }
    if (first == NULL)
        return;
    fprintf(page->out, "<tr%s><th scope=\"row\">", differs && shows_differences ? " class=\"differs\"" : "");
    html_text(page->out, name);
    fputs("</th>", page->out);
    for (uint32_t i = 0; i < page->run_count; i++) {
        fputs("<td>", page->out);
        html_text(page->out, page->cells[i].text[0] != '\0' ? page->cells[i].text : "-");
        fputs("</td>", page->out);
    }
    fputs("</tr>\n", page->out);
}

void page_name(const struct page *page, const struct shown_run *run)
{
    if (page->run_count > 1)
        fprintf(page->out, "<span class=\"n c%u\">%u</span> ", run->number % CHART_COLOURS, run->number + 1);
    html_text(page->out, run->name);
}

/* The columns of several runs have names. */
static void open_table(const struct page *page, const char *heading)
{
    fprintf(page->out, "<section><h2>%s</h2>\n<div class=\"scroll\"><table>\n", heading);
    if (page->run_count > 1) {
        fputs("<thead><tr><th></th>", page->out);
        for (uint32_t i = 0; i < page->run_count; i++) {
            fputs("<th scope=\"col\">", page->out);
            page_name(page, &page->runs[i]);
            fputs("</th>", page->out);
        }
        fputs("</tr></thead>", page->out);
    }
    fputs("<tbody>\n", page->out);
}

static void close_table(const struct page *page)
{
    fputs("</tbody></table></div></section>\n", page->out);
}

static void write_facts(const struct page *page, const struct fact *facts, size_t count, bool shows_differences)
{
    for (size_t fact = 0; fact < count; fact++) {
        for (uint32_t i = 0; i < page->run_count; i++)
            page->cells[i] = cell_of(look_at(page->runs[i].summary, facts[fact].path), facts[fact].form);
        write_row(page, facts[fact].name, shows_differences);
    }
}

void page_tiles(const struct page *page)
{
    fputs("<div class=\"tiles\">\n", page->out);
    for (size_t i = 0; i < COUNT(tiles); i++) {
        const struct cell cell = cell_of(look_at(page->runs[0].summary, tiles[i].path), tiles[i].form);
        if (cell.text[0] == '\0')
            continue;
        fputs("<div><b>", page->out);
        html_text(page->out, cell.text);
        fprintf(page->out, "</b><span>%s</span></div>\n", tiles[i].name);
    }
    fputs("</div>\n", page->out);
}

/* Of several runs they all differ. */
void page_results(const struct page *page)
{
    open_table(page, "Result");
    write_facts(page, results, COUNT(results), false);
    close_table(page);
}

void page_plan(const struct page *page)
{
    open_table(page, "Plan");
    write_facts(page, plan, COUNT(plan), true);
    close_table(page);
}

static const char *library_of(const struct shown_run *run, const char *name)
{
    const char *const path[] = { "libraries", name, NULL };
    return json_string_value(look_at(run->summary, path));
}

static bool is_told_before(const struct page *page, uint32_t run, const char *library)
{
    for (uint32_t i = 0; i < run; i++)
        if (library_of(&page->runs[i], library) != NULL)
            return true;
    return false;
}

/* Those of any run. */
static void write_libraries(const struct page *page)
{
    static const char *const path[] = { "libraries", NULL };
    for (uint32_t run = 0; run < page->run_count; run++) {
        json_t *const libraries = (json_t *)look_at(page->runs[run].summary, path);
        for (void *at = json_object_iter(libraries); at != NULL; at = json_object_iter_next(libraries, at)) {
            const char *const name = json_object_iter_key(at);
            if (is_told_before(page, run, name))
                continue;
            for (uint32_t i = 0; i < page->run_count; i++) {
                const char *const theirs = library_of(&page->runs[i], name);
                snprintf(page->cells[i].text, sizeof(page->cells[i].text), "%s", theirs != NULL ? theirs : "");
            }
            write_row(page, name, true);
        }
    }
}

void page_environment(const struct page *page)
{
    open_table(page, "Environment");
    write_facts(page, environment, COUNT(environment), true);
    write_libraries(page);
    close_table(page);
}

/* The cells of a setting; true where runs have it with other values, or have it not. */
static bool find_setting(const struct page *page, const struct setting *setting)
{
    bool differs = false;
    for (uint32_t i = 0; i < page->run_count; i++) {
        const char *const value = settings_list_find(&page->runs[i].settings, setting->section, setting->key);
        differs |= value == NULL || strcmp(value, setting->value) != 0;
        snprintf(page->cells[i].text, sizeof(page->cells[i].text), "%s",
                 value == NULL ? "" : *value == '\0' ? "(empty)" : value);
    }
    return differs;
}

static bool is_set_before(const struct page *page, uint32_t run, const struct setting *setting)
{
    for (uint32_t i = 0; i < run; i++)
        if (settings_list_find(&page->runs[i].settings, setting->section, setting->key) != NULL)
            return true;
    return false;
}

/* Names and folders of runs differ always. */
static bool is_compared(const struct setting *setting)
{
    return strcmp(setting->section, "run") != 0 ||
           (strcmp(setting->key, "name") != 0 && strcmp(setting->key, "dir") != 0);
}

void page_settings(const struct page *page)
{
    size_t count = 0;
    open_table(page, "Settings that differ");
    for (uint32_t run = 0; run < page->run_count; run++) {
        const struct settings_list *const list = &page->runs[run].settings;
        for (size_t i = 0; i < list->count; i++) {
            char name[256];
            const struct setting *const setting = &list->settings[i];
            if (!is_compared(setting) || is_set_before(page, run, setting) || !find_setting(page, setting))
                continue;
            snprintf(name, sizeof(name), "%s.%s", setting->section, setting->key);
            write_row(page, name, false);
            count++;
        }
    }
    close_table(page);
    if (count == 0)
        fputs("<p class=\"soft\">None: all runs had the same settings.</p>\n", page->out);
}
