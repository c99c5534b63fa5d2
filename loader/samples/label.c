/* Labels. Read by decoders for every record. */
#include "loader/samples/label.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"

#define TEXT_SHOWN_MAX 64u
#define CLASSES_MAX 1000000     /* of a network: larger labels are something else */

static bool read_integer(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    (void)format;
    *stored_out = feature->int64;
    return feature->kind == FEATURE_INT64S && feature->value_count == 1;
}

/* A row of numbers, of which one is to be 1 and all others 0. */
struct row {
    int64_t next, hot;          /* the number that comes next; where the last 1 was */
    uint32_t ones, others;
};

static void meet_number(struct row *row, bool is_one, bool is_zero)
{
    if (is_one)
        row->hot = row->next;
    row->ones += is_one;
    row->others += !is_one && !is_zero;
    row->next++;
}

static void meet_int64(void *arg, int64_t value)
{
    meet_number(arg, value == 1, value == 0);
}

static void meet_floats(void *arg, const uint8_t *run, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, run + 4 * i, sizeof(value));
        meet_number(arg, value == 1, value == 0);
    }
}

static bool is_row(const struct label_format *format, const struct feature *feature)
{
    return format->classes > 1 && feature->value_count == format->classes;
}

static bool read_row(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    struct row row = { .ones = 0 };
    const struct value_visitor visitor = { .int64 = meet_int64, .floats = meet_floats, .arg = &row };
    if (!is_row(format, feature))
        return false;
    feature_visit(feature, &visitor);
    *stored_out = row.hot;
    return row.ones == 1 && row.others == 0;
}

static bool read_int64_row(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    return feature->kind == FEATURE_INT64S && read_row(format, feature, stored_out);
}

static bool read_float_row(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    return feature->kind == FEATURE_FLOATS && read_row(format, feature, stored_out);
}

static bool is_bytes(const struct feature *feature)
{
    return feature->kind == FEATURE_BYTES && feature->value_count == 1;
}

static bool read_text(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    uint32_t class;
    if (!is_bytes(feature) || format->names == NULL ||
        class_names_find(format->names, feature->bytes, feature->byte_count, &class) != 0)
        return false;
    *stored_out = class;
    return true;
}

static bool read_byte(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    (void)format;
    if (!is_bytes(feature) || feature->byte_count != 1)
        return false;
    *stored_out = *feature->bytes;
    return true;
}

/* The first that can read a first record's label is how all are stored. */
static const struct label_ops kinds[] = {
    { "integers", read_integer },
    { "one-hot integers", read_int64_row },
    { "one-hot floats", read_float_row },
    { "names of classes", read_text },
    { "single bytes", read_byte },
};

static bool is_text(const struct feature *feature)
{
    size_t i = 0;
    while (i < feature->byte_count && (feature->bytes[i] >= 0x80 || isprint(feature->bytes[i])))
        i++;
    return i > 0 && i == feature->byte_count && i <= TEXT_SHOWN_MAX;
}

static int tell_text(const struct label_format *format, const char *key, const struct feature *feature,
                     const struct payload_problem *problem)
{
    char shown[4 * TEXT_SHOWN_MAX + 1];
    uint32_t class;
    log_escape((const char *)feature->bytes, feature->byte_count, shown, sizeof(shown));
    if (format->names == NULL)
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds the text '%s': name a file that lists the names of all classes with class_names",
                 key, shown);
    else
        snprintf(problem->text, problem->text_size, "label '%s' is %s of the %" PRIu32 " class names", shown,
                 class_names_find(format->names, feature->bytes, feature->byte_count, &class) == -ENOTUNIQ
                     ? "more than one" : "none",
                 format->names->count);
    return -EBADMSG;
}

/* That the feature holds no label of the kind found, or of any. */
static int tell_kind(const struct label_format *format, const char *key, const struct feature *feature,
                     const struct payload_problem *problem)
{
    if (feature->kind == FEATURE_MISSING)
        return feature_tell_missing(problem, "label", key);
    if (is_bytes(feature) && is_text(feature))
        return tell_text(format, key, feature, problem);
    if (feature->kind != FEATURE_BYTES && is_row(format, feature))
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, as many as classes, but not one 1 and zeros", key,
                 feature_values_text(feature).text);
    else if (format->ops == NULL || format->ops->read == read_integer)
        snprintf(problem->text, problem->text_size, "feature '%s' holds %s, one integer label is needed", key,
                 feature_values_text(feature).text);
    else
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, where the labels of the first record are %s", key,
                 feature_values_text(feature).text, format->ops->name);
    return -EBADMSG;
}

/* What to change when a label is outside the range. */
static void hint(const struct label_format *format, int64_t label, char *text, size_t text_size)
{
    text[0] = '\0';
    if (label == -1)
        snprintf(text, text_size, ": set data.label_offset one higher, if that is the lowest label");
    else if (label == (int64_t)format->classes)
        snprintf(text, text_size,
                 ": if the labels count from 1, set data.label_offset one lower; else set data.classes to the number "
                 "of classes");
    else if (label >= 0 && label < CLASSES_MAX)
        snprintf(text, text_size, ": set data.classes to the number of classes, at least %" PRId64, label + 1);
}

static int tell_range(const struct label_format *format, int64_t stored, const struct payload_problem *problem)
{
    int64_t label;
    char advice[128];
    if (__builtin_add_overflow(stored, format->offset, &label)) {
        snprintf(problem->text, problem->text_size, "label %" PRId64 " is not in [0, %" PRIu32 ")", stored,
                 format->classes);
        return -EBADMSG;
    }
    hint(format, label, advice, sizeof(advice));
    if (format->offset != 0)
        snprintf(problem->text, problem->text_size,
                 "label %" PRId64 " (%" PRId64 " with label_offset) is not in [0, %" PRIu32 ")%s", stored, label,
                 format->classes, advice);
    else
        snprintf(problem->text, problem->text_size, "label %" PRId64 " is not in [0, %" PRIu32 ")%s", label,
                 format->classes, advice);
    return -EBADMSG;
}

int label_find_format(struct label_format *format, const char *key, const struct feature *feature,
                      const struct payload_problem *problem)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        int64_t stored;
        if (kinds[i].read(format, feature, &stored)) {
            format->ops = &kinds[i];
            return 0;
        }
    }
    return tell_kind(format, key, feature, problem);
}

int label_read_stored(const struct label_format *format, const char *key, const struct feature *feature,
                      int64_t *stored_out, const struct payload_problem *problem)
{
    return format->ops->read(format, feature, stored_out) ? 0 : tell_kind(format, key, feature, problem);
}

int label_read(const struct label_format *format, const char *key, const struct feature *feature,
               int32_t *label_out, const struct payload_problem *problem)
{
    int64_t stored, label;
    if (!format->ops->read(format, feature, &stored))
        return tell_kind(format, key, feature, problem);
    const bool is_bad = __builtin_add_overflow(stored, format->offset, &label) || label < 0 ||
                        label >= (int64_t)format->classes;
    if (is_bad && !format->is_any_taken)
        return tell_range(format, stored, problem);
    *label_out = is_bad ? 0 : (int32_t)label;
    return 0;
}
