/* Labels, and messages about features. Called by decoders for every record. */
#include "loader/label.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "loader/shards/text.h"
#include "stage/log.h"

#define TEXT_SHOWN_MAX 64u
#define CLASSES_MAX 1000000     /* most classes of a network: larger labels are no class numbers */

/* ---- messages about features ---- */

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

/* Add a feature to the list. If it does not fit, dots end the list. */
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

int feature_report_bad(const struct payload_problem *problem, size_t bad_offset)
{
    snprintf(problem->text, problem->text_size, "is not a tf.train.Example (byte %zu of its payload)", bad_offset);
    return -EBADMSG;
}

int feature_report_missing(const struct payload_problem *problem, const char *what, const char *key)
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

/* ---- ways of storing a label ---- */

static bool read_integer(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    (void)format;
    *stored_out = feature->int64;
    return feature->kind == FEATURE_INT64S && feature->value_count == 1;
}

/* Counts in a row of numbers, to recognise one-hot labels: one 1, otherwise zeros. */
struct row {
    int64_t next, hot;          /* indexes of the next number and of the last 1 */
    uint32_t ones, others;      /* others: numbers that are neither 0 nor 1 */
};

static void count_number(struct row *row, bool is_one, bool is_zero)
{
    if (is_one)
        row->hot = row->next;
    row->ones += is_one;
    row->others += !is_one && !is_zero;
    row->next++;
}

static void count_int64(void *arg, int64_t value)
{
    count_number(arg, value == 1, value == 0);
}

static void count_floats(void *arg, const uint8_t *run, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, run + 4 * i, sizeof(value));
        count_number(arg, value == 1, value == 0);
    }
}

static bool is_row(const struct label_format *format, const struct feature *feature)
{
    return format->classes > 1 && feature->value_count == format->classes;
}

static bool find_hot(const struct feature *feature, int64_t *hot_out)
{
    struct row row = { .ones = 0 };
    const struct value_visitor visitor = { .int64 = count_int64, .floats = count_floats, .arg = &row };
    feature_visit(feature, &visitor);
    *hot_out = row.hot;
    return row.ones == 1 && row.others == 0;
}

static bool read_row(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    return is_row(format, feature) && find_hot(feature, stored_out);
}

/* Is the feature one-hot, with any number of classes? */
static bool is_one_hot(const struct feature *feature)
{
    int64_t hot;
    return (feature->kind == FEATURE_INT64S || feature->kind == FEATURE_FLOATS) && feature->value_count > 1 &&
           find_hot(feature, &hot);
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
    const int64_t label = class;
    return !__builtin_sub_overflow(label, format->offset, stored_out);
}

/* Read a decimal number in the format of Python's str(): an optional minus sign and digits. */
static bool read_digits(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    (void)format;
    if (!is_bytes(feature))
        return false;
    const bool is_negative = feature->byte_count > 0 && feature->bytes[0] == '-';
    int64_t number = 0;
    for (size_t i = is_negative; i < feature->byte_count; i++) {
        const int digit = feature->bytes[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    *stored_out = is_negative ? -number : number;
    return feature->byte_count > is_negative;
}

static bool read_byte(const struct label_format *format, const struct feature *feature, int64_t *stored_out)
{
    (void)format;
    if (!is_bytes(feature) || feature->byte_count != 1)
        return false;
    *stored_out = *feature->bytes;
    return true;
}

/* The ways in the order in which they are tried on the first record; all labels must be stored in the way that matches
 * first. A single character is ambiguous: see label_is_open. */
static const struct label_ops kinds[] = {
    { "integers", read_integer },
    { "one-hot integers", read_int64_row },
    { "one-hot floats", read_float_row },
    { "names of classes", read_text },
    { "digits as text", read_digits },
    { "single bytes", read_byte },
};

static const struct label_ops *const byte_kind = &kinds[sizeof(kinds) / sizeof(*kinds) - 1];

/* The length of a text without trailing white space and zeros, which are usual in lines and fixed-width arrays. */
static size_t trimmed_bytes(const struct feature *feature)
{
    size_t bytes = feature->byte_count;
    while (bytes > 0 && (feature->bytes[bytes - 1] == '\0' || isspace(feature->bytes[bytes - 1])))
        bytes--;
    return bytes;
}

static bool is_text(const struct feature *feature)
{
    const size_t bytes = trimmed_bytes(feature);
    size_t i = 0;
    while (i < bytes && (feature->bytes[i] >= 0x80 || isprint(feature->bytes[i])))
        i++;
    return i > 0 && i == bytes && feature->byte_count <= TEXT_SHOWN_MAX;
}

static int report_text(const struct label_format *format, const char *key, const struct feature *feature,
                     const struct payload_problem *problem)
{
    char shown[4 * TEXT_SHOWN_MAX + 1];
    const size_t trimmed = trimmed_bytes(feature);
    uint32_t class;
    log_escape((const char *)feature->bytes, feature->byte_count, shown, sizeof(shown));
    if (format->names == NULL)
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds the text '%s': name a file that lists the names of all classes with class_names, "
                 "or store labels as integers", key, shown);
    else if (trimmed < feature->byte_count &&
             class_names_find(format->names, feature->bytes, trimmed, &class) == 0)
        snprintf(problem->text, problem->text_size,
                 "label '%s' is none of the %" PRIu32 " class names, '%s' is: store it without the characters after it",
                 shown, format->names->count, format->names->names[class]);
    else
        snprintf(problem->text, problem->text_size, "label '%s' is %s of the %" PRIu32 " class names", shown,
                 class_names_find(format->names, feature->bytes, feature->byte_count, &class) == -ENOTUNIQ
                     ? "more than one" : "none",
                 format->names->count);
    return -EBADMSG;
}

static bool is_one_hot_bytes(const struct feature *feature)
{
    size_t ones = 0, zeros = 0;
    if (!is_bytes(feature))
        return false;
    for (size_t i = 0; i < feature->byte_count; i++) {
        ones += feature->bytes[i] == 1;
        zeros += feature->bytes[i] == 0;
    }
    return feature->byte_count > 1 && ones == 1 && ones + zeros == feature->byte_count;
}

/* Report a feature that is not a label of the kind in `format`, or of any kind. */
static int report_kind(const struct label_format *format, const char *key, const struct feature *feature,
                     const struct payload_problem *problem)
{
    struct values_text values = feature_values_text(feature);
    const char *const holds = values.text;
    if (feature->kind == FEATURE_MISSING)
        return feature_report_missing(problem, "label", key);
    if (is_bytes(feature))
        snprintf(values.text, sizeof(values.text), "%zu byte%s", feature->byte_count,
                 feature->byte_count == 1 ? "" : "s");
    if (is_bytes(feature) && is_text(feature) && (format->ops == NULL || format->ops->read == read_text))
        return report_text(format, key, feature, problem);
    if (is_one_hot(feature) && format->ops == NULL)
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, one 1 and zeros: a one-hot label of a network with data.classes = %" PRIu64,
                 key, holds, feature->value_count);
    else if (feature->kind != FEATURE_BYTES && is_row(format, feature) && !is_one_hot(feature))
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, as many as classes, but not one 1 and zeros", key, holds);
    else if (is_one_hot_bytes(feature))
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, one of them 1 and the others 0: a one-hot label as bytes: write it as a list "
                 "of %zu integers, or as one integer", key, holds, feature->byte_count);
    else if (format->ops == NULL || format->ops->read == read_integer)
        snprintf(problem->text, problem->text_size, "feature '%s' holds %s, one integer label is needed", key, holds);
    else
        snprintf(problem->text, problem->text_size,
                 "feature '%s' holds %s, where the labels of the first record are %s", key, holds, format->ops->name);
    return -EBADMSG;
}

/* Write which setting to change if a label is out of range. */
static void describe_fix(const struct label_format *format, int64_t stored, int64_t label, char *text, size_t text_size)
{
    text[0] = '\0';
    if (label == -1 && stored == -1)
        snprintf(text, text_size, ": " LABEL_MINUS_ONE "; " LABEL_COUNTED_FROM_MINUS_ONE);
    else if (label == -1)
        snprintf(text, text_size, ": set data.label_offset one higher, if that is the lowest label");
    else if (label == (int64_t)format->classes && format->offset <= 0)
        snprintf(text, text_size, ": if the labels count from 1, set data.label_offset one lower; else %s",
                 format->classes_are_fixed ? "the weights are of a network with fewer classes"
                                           : "set data.classes to the number of classes");
    else if (label >= 0 && format->classes_are_fixed)
        snprintf(text, text_size, ": the weights are of a network with %" PRIu32 " classes", format->classes);
    else if (label >= 0 && label < CLASSES_MAX)
        snprintf(text, text_size, ": set data.classes to the number of classes, at least %" PRId64, label + 1);
}

static int report_range(const struct label_format *format, int64_t stored, const struct payload_problem *problem)
{
    int64_t label;
    char advice[256];
    if (__builtin_add_overflow(stored, format->offset, &label)) {
        snprintf(problem->text, problem->text_size, "label %" PRId64 " is not in [0, %" PRIu32 ")", stored,
                 format->classes);
        return -EBADMSG;
    }
    describe_fix(format, stored, label, advice, sizeof(advice));
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
    return report_kind(format, key, feature, problem);
}

bool label_is_open(const struct label_format *format, const struct feature *feature)
{
    return (format->ops->read == read_digits || format->ops->read == read_byte) && feature->byte_count == 1 &&
           isprint(feature->bytes[0]);
}

bool label_is_number_byte(const struct feature *feature)
{
    return is_bytes(feature) && feature->byte_count == 1 && !isprint(feature->bytes[0]);
}

bool label_is_name(const struct label_format *format)
{
    return format->ops != NULL && format->ops->read == read_text;
}

int label_settle(struct label_format *format, const char *key, const struct feature *feature, bool is_number,
                 const struct payload_problem *problem)
{
    if (is_number)
        format->ops = byte_kind;
    if (is_number || format->ops->read == read_digits)
        return 0;
    return report_text(format, key, feature, problem);
}

int label_read_stored(const struct label_format *format, const char *key, const struct feature *feature,
                      int64_t *stored_out, const struct payload_problem *problem)
{
    return format->ops->read(format, feature, stored_out) ? 0 : report_kind(format, key, feature, problem);
}

int label_read(const struct label_format *format, const char *key, const struct feature *feature,
               int32_t *label_out, const struct payload_problem *problem)
{
    int64_t stored, label;
    if (!format->ops->read(format, feature, &stored))
        return report_kind(format, key, feature, problem);
    const bool is_bad = __builtin_add_overflow(stored, format->offset, &label) || label < 0 ||
                        label >= (int64_t)format->classes;
    if (is_bad && !format->accepts_any)
        return report_range(format, stored, problem);
    *label_out = is_bad ? 0 : (int32_t)label;
    return 0;
}
