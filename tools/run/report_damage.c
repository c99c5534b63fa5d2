/* Damaged records, listed. By main, and line by line by whichever thread meets one. */
#include "tools/run/report_damage.h"

#include <inttypes.h>
#include <string.h>

#include "stage/log.h"
#include "tools/config/number.h"

#define PRINTED_MAX 10u
#define LINE_BYTES 8192u        /* more than a line takes, but for paths that are escaped over and over */

static void print_record(const struct damaged_record *record, FILE *out)
{
    char path[DAMAGE_TEXT_BYTES];
    log_escape(record->path, strlen(record->path), path, sizeof(path));
    fprintf(out, "          %s: record %" PRIu64 " at byte %" PRIu64 ": %s\n", path, record->record, record->offset,
            record->problem.text);
}

static void print_file(const struct run_directory *directory, FILE *out)
{
    const uint64_t lost = run_directory_lost_lines(directory, RUN_QUARANTINE);
    fprintf(out, "          each is a line of %s/%s", run_directory_path(directory),
            run_directory_lines_name(RUN_QUARANTINE));
    if (lost > 0)
        fprintf(out, ", but for %s that could not be written", number_grouped(lost).text);
    fputc('\n', out);
}

void report_damage_print(const struct damage_list *list, uint64_t total, const struct run_directory *directory,
                         FILE *out)
{
    if (total == 0)
        return;
    const size_t printed = list->count < PRINTED_MAX ? list->count : PRINTED_MAX;
    uint64_t more = total;
    fprintf(out, "damage    %s record%s replaced or left out:\n", number_grouped(total).text, total == 1 ? "" : "s");
    for (size_t i = 0; i < printed; i++)
        print_record(&list->records[i], out);
    for (size_t i = 0; i < printed; i++)
        more -= list->records[i].count;
    if (more > 0)
        fprintf(out, "          and %s more\n", number_grouped(more).text);
    if (directory != NULL)
        print_file(directory, out);
}

static void write_crc(struct json *json, const char *key, uint32_t crc)
{
    char text[9];
    snprintf(text, sizeof(text), "%08" PRIx32, crc);
    json_quoted(json, key, text);
}

static void write_record(struct json *json, const struct damaged_record *record)
{
    json_open_object(json, NULL);
    json_quoted(json, "set", record->phase == PHASE_TRAIN ? "train" : "validation");
    json_quoted(json, "path", record->path);
    json_u64(json, "record", record->record);
    json_u64(json, "offset", record->offset);
    json_u64(json, "count", record->count);
    json_quoted(json, "problem", record->problem.text);
    if (record->problem.has_crcs) {
        write_crc(json, "stored_crc", record->problem.stored_crc);
        write_crc(json, "computed_crc", record->problem.computed_crc);
    }
    json_close_object(json);
}

static void write_file(const struct run_directory *directory, struct json *json)
{
    const uint64_t lost = run_directory_lost_lines(directory, RUN_QUARANTINE);
    json_quoted(json, "file", run_directory_lines_name(RUN_QUARANTINE));
    if (lost > 0)
        json_u64(json, "file_lacks", lost);
}

void report_damage_write(const struct damage_list *list, const struct run_directory *directory, struct json *json)
{
    json_open_object(json, "damage");
    json_open_array(json, "records");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        write_record(json, &list->records[i]);
    json_close_array(json);
    json_u64(json, "unlisted", list != NULL ? list->unlisted : 0);
    if (list != NULL && directory != NULL)
        write_file(directory, json);
    json_close_object(json);
}

int report_damage_init(struct report_damage *report, struct run_directory *directory)
{
    report->directory = directory;
    json_init(&report->line, false);
    return json_reserve(&report->line, LINE_BYTES);
}

void report_damage_release(struct report_damage *report)
{
    json_release(&report->line);
}

void report_damage_add(void *report, const struct damaged_record *record)
{
    struct report_damage *const quarantine = report;
    if (quarantine->directory == NULL)
        return;
    json_reset(&quarantine->line);
    write_record(&quarantine->line, record);
    run_directory_add_line(quarantine->directory, RUN_QUARANTINE, &quarantine->line);
}
