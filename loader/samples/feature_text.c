/* Messages about features. Called by decoders for records that are not right. */
#include "loader/samples/feature_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "loader/shards/text.h"
#include "stage/log.h"

const char *feature_kind_text(enum feature_kind kind)
{
    static const char *const kinds[] = {
        [FEATURE_MISSING] = "nothing", [FEATURE_BYTES] = "bytes values", [FEATURE_FLOATS] = "floats",
        [FEATURE_INT64S] = "integers",
    };
    return kinds[kind];
}

/* The next feature of the list, wholly or not at all: a list that is cut ends in dots. */
static int list_feature(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    static const char cut[] = " ...";
    struct text *const list = arg;
    char shown[128], item[256];
    log_escape(name, name_bytes, shown, sizeof(shown));
    const int bytes = snprintf(item, sizeof(item), " %s (%" PRIu64 " %s)", shown, feature->value_count,
                               feature_kind_text(feature->kind));
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
