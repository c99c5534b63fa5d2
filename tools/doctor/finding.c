/* A list of findings, printed as a table or as JSON. */
#include "tools/doctor/finding.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "stage/log.h"
#include "tools/lib/text/wrapped.h"

#define TEXT_BYTES 4096u        /* of a finding or of its advice, which may contain paths */

static const char *const words[JUDGEMENT_COUNT] = {
    [JUDGEMENT_FINE] = "fine", [JUDGEMENT_NOTE] = "note", [JUDGEMENT_WARN] = "warn" };

void findings_release(struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->of[i].found);
        free(findings->of[i].advice);
    }
    free(findings->of);
    *findings = (struct findings){ 0 };
}

/* The formatted text, in which names of files and devices are escaped as in messages. NULL if out of memory. */
static char *__attribute__((format(printf, 1, 0))) text_of(const char *format, va_list arguments)
{
    char raw[TEXT_BYTES];
    vsnprintf(raw, sizeof(raw), format, arguments);
    const size_t room = 4 * strlen(raw) + 1;
    char *const plain = malloc(room);
    if (plain != NULL)
        log_plain(raw, plain, room);
    return plain;
}

static bool make_room(struct findings *findings)
{
    if (findings->count < findings->room)
        return true;
    const size_t room = findings->room > 0 ? 2 * findings->room : 32;
    struct finding *const of = realloc(findings->of, room * sizeof(*of));
    if (of == NULL)
        return false;
    findings->of = of;
    findings->room = room;
    return true;
}

void findings_add(struct findings *findings, const char *topic, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *const found = text_of(format, arguments), *const advice = calloc(1, 1);
    va_end(arguments);
    if (found == NULL || advice == NULL || !make_room(findings)) {
        findings->failed = true;
        free(found);
        free(advice);
        return;
    }
    findings->of[findings->count++] = (struct finding){ topic, name, JUDGEMENT_FINE, found, advice };
}

void findings_judge(struct findings *findings, enum judgement judgement, const char *format, ...)
{
    if (findings->failed || findings->count == 0)
        return;
    struct finding *const last = &findings->of[findings->count - 1];
    if (judgement <= last->judgement)
        return;
    va_list arguments;
    va_start(arguments, format);
    char *const advice = text_of(format, arguments);
    va_end(arguments);
    if (advice == NULL) {
        findings->failed = true;
        return;
    }
    free(last->advice);
    last->advice = advice;
    last->judgement = judgement;
}

size_t findings_count(const struct findings *findings, enum judgement judgement)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->of[i].judgement == judgement;
    return count;
}

void findings_print(const struct findings *findings, FILE *out)
{
    const char *topic = "";
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *const finding = &findings->of[i];
        const bool is_first = strcmp(topic, finding->topic) != 0;
        topic = finding->topic;
        wrapped_print(out, "%-*s%s  %s: %s", (int)WRAPPED_INDENT, is_first ? topic : "", words[finding->judgement],
                      finding->name, finding->found);
        if (finding->judgement != JUDGEMENT_FINE)
            wrapped_print(out, "%*s-> %s", (int)WRAPPED_INDENT, "", finding->advice);
    }
    const size_t notes = findings_count(findings, JUDGEMENT_NOTE), warnings = findings_count(findings, JUDGEMENT_WARN);
    fprintf(out, "%-*s%zu finding%s: %zu fine, %zu note%s, %zu warning%s\n", (int)WRAPPED_INDENT, "doctor",
            findings->count, findings->count == 1 ? "" : "s", findings_count(findings, JUDGEMENT_FINE), notes,
            notes == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
}

int findings_write(const struct findings *findings, FILE *out)
{
    struct json json;
    json_init(&json, false);
    for (size_t i = 0; i < findings->count && !json.failed; i++) {
        const struct finding *const finding = &findings->of[i];
        json_reset(&json);
        json_open_object(&json, NULL);
        json_quoted(&json, "topic", finding->topic);
        json_quoted(&json, "name", finding->name);
        json_quoted(&json, "judgement", words[finding->judgement]);
        json_quoted(&json, "found", finding->found);
        json_quoted(&json, "advice", finding->advice);
        json_close_object(&json);
        if (json_text(&json) != NULL)
            fprintf(out, "%s\n", json_text(&json));
    }
    const int rc = json.failed ? -ENOMEM : 0;
    json_release(&json);
    return rc;
}
