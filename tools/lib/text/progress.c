/* Progress of a conversion or a scan. Called by the working threads. */
#include "tools/lib/text/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/terminal.h"

#define NS_PER_S UINT64_C(1000000000)
#define SILENT_NS (2 * NS_PER_S)
#define REPAINT_NS (NS_PER_S / 4)
#define LINE_NS (10 * NS_PER_S)

static enum progress_form chosen;

void progress_choose(enum progress_form form)
{
    chosen = form;
}

void progress_begin(struct progress *progress, const char *what, const char *unit, uint64_t total)
{
    *progress = (struct progress){
        .what = what, .unit = unit, .total = total, .each = 1, .began_ns = clock_now_ns(),
        .rewrites = chosen == PROGRESS_BAR || (chosen == PROGRESS_AUTO && terminal_repaints(STDERR_FILENO)),
        .is_json = chosen == PROGRESS_JSON,
    };
    atomic_init(&progress->done, 0);
    atomic_init(&progress->next_ns, chosen == PROGRESS_NONE ? UINT64_MAX : progress->began_ns + SILENT_NS);
}

void progress_begin_bytes(struct progress *progress, const char *what, uint64_t total)
{
    progress_begin(progress, what, "MiB", total);
    progress->each = UINT64_C(1) << 20;
}

void progress_begin_steps(struct progress *progress, const char *what, const char *unit, uint64_t total, uint64_t each)
{
    progress_begin(progress, what, unit, total * each);
    progress->each = each;
}

void progress_keep_to_terminal(struct progress *progress)
{
    if (!progress->rewrites)
        atomic_store(&progress->next_ns, UINT64_MAX);
}

/* Write a duration: "45 s", "3 min", "2 h 5 min". */
static void duration_text(double seconds, char *text, size_t text_size)
{
    const double minutes = seconds / 60;
    if (seconds < 90)
        snprintf(text, text_size, "%.0f s", seconds);
    else if (minutes < 90)
        snprintf(text, text_size, "%.0f min", minutes);
    else
        snprintf(text, text_size, "%.0f h %.0f min", (double)(uint64_t)(minutes / 60),
                 (double)((uint64_t)minutes % 60));
}

static void progress_text(const struct progress *progress, uint64_t done, double seconds, char *text, size_t text_size)
{
    char left[48];

    if (progress->total == 0) {
        snprintf(text, text_size, "%s: %s %s", progress->what, number_grouped(done / progress->each).text,
                 progress->unit);
        return;
    }
    duration_text(seconds / (double)done * (double)(progress->total - done), left, sizeof(left));
    snprintf(text, text_size, "%s: %s of %s %s, %.0f %%, about %s left", progress->what,
             number_grouped(done / progress->each).text, number_grouped(progress->total / progress->each).text,
             progress->unit,
             100 * (double)done / (double)progress->total, left);
}

/* Write a JSON object; its texts are constants, which need no escapes. */
static void progress_object(const struct progress *progress, uint64_t done, double seconds, char *text,
                            size_t text_size)
{
    const size_t begun = (size_t)snprintf(text, text_size, "{\"kind\":\"working\",\"what\":\"%s\",\"unit\":\"%s\","
                                          "\"done\":%" PRIu64, progress->what, progress->unit, done / progress->each);
    if (progress->total == 0)
        snprintf(text + begun, text_size - begun, ",\"total\":null,\"seconds_left\":null}");
    else
        snprintf(text + begun, text_size - begun, ",\"total\":%" PRIu64 ",\"seconds_left\":%.1f}",
                 progress->total / progress->each, seconds / (double)done * (double)(progress->total - done));
}

static void print_progress(struct progress *progress, uint64_t done, uint64_t now_ns)
{
    const double seconds = (double)(now_ns - progress->began_ns) / (double)NS_PER_S;
    char text[256];
    (progress->is_json ? progress_object : progress_text)(progress, done, seconds, text, sizeof(text));
    if (!progress->rewrites) {
        log_line(text);
        return;
    }
    const unsigned columns = terminal_columns(STDERR_FILENO) - 1;
    if (columns < sizeof(text))
        text[columns] = '\0';
    log_live(text);
}

void progress_add(struct progress *progress, uint64_t count)
{
    const uint64_t done = atomic_fetch_add(&progress->done, count) + count, now_ns = clock_now_ns();
    uint_fast64_t due_ns = atomic_load(&progress->next_ns);

    if (now_ns >= due_ns && (done < progress->total || progress->total == 0) &&
        atomic_compare_exchange_strong(&progress->next_ns, &due_ns,
                                       now_ns + (progress->rewrites ? REPAINT_NS : LINE_NS)))
        print_progress(progress, done, now_ns);
}

void progress_end(struct progress *progress)
{
    if (progress->rewrites)
        log_live(NULL);
}
