/* Messages about features. Called by decoders for records that are not right. */
#include "loader/samples/feature_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "loader/shards/text.h"
#include "stage/log.h"

struct values_text feature_values_text(const struct feature *feature)
{
    static const char *const kinds[] = {
        [FEATURE_BYTES] = "byte string", [FEATURE_FLOATS] = "float", [FEATURE_INT64S] = "integer",
    };
    struct values_text values = { "nothing" };
    if (feature->kind == FEATURE_BYTES && feature->value_count == 1)
        return (struct values_text){ "bytes" };
    if (feature->kind != FEATURE_MISSING)
        snprintf(values.text, sizeof(values.text), "%" PRIu64 " %s%s", feature->value_count, kinds[feature->kind],
                 feature->value_count == 1 ? "" : "s");
    return values;
}

/* The next feature of the list, wholly or not at all: a list that is cut ends in dots. */
static int list_feature(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    static const char cut[] = " ...";
    struct text *const list = arg;
    char shown[128], item[256];
    log_escape(name, name_bytes, shown, sizeof(shown));
    const int bytes = snprintf(item, sizeof(item), " %s (%s)", shown, feature_values_text(feature).text);
    if ((size_t)bytes + sizeof(cut) <= list->room) {
        text_add(list, "%s", item);
        return 0;
    }
    text_add(list, "%s", cut);
    return -ENOSPC;
}

int feature_tell_bad(const struct payload_problem *problem, size_t bad_offset)
{
    snprintf(problem->text, problem->text_size, "is no tf.train.Example (byte %zu of its payload)", bad_offset);
    return -EBADMSG;
}

int feature_tell_missing(const struct payload_problem *problem, const char *what, const char *key)
{
    struct text text;
    size_t bad_offset;
    text_init(&text, problem->text, problem->text_size);
    if (key != NULL)
        text_add(&text, "has no feature '%s' for the %s; it has:", key, what);
    else
        text_add(&text, "has no feature known as %s, name one with %s_key; it has:", what, what);
    char *const list = text.at;
    (void)example_visit(problem->payload, problem->bytes, list_feature, &text, &bad_offset);
    if (text.at == list)
        text_add(&text, " none");
    return -EBADMSG;
}
