/* Finds the meaning of columns from the names in the first row and the values of the first rows. A name counts only
 * if the values are compatible with it. Called by the main thread of the converter. */
#include "tools/convert/csv_columns.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/convert/image_folder.h"
#include "tools/convert/pixel_order.h"

#define SAMPLE_ROWS_MAX 500u
#define SAMPLE_FIELDS_MAX 1000000u
#define NAME_BYTES 32u          /* size of a normalised column name */
#define WIDE_PIXELS_LEAST 64u   /* fewer columns of numbers are pixels only if they have such names */
#define TEXT_PIXELS_LEAST 9u
#define COUNTED_LEAST 5u        /* fewer consecutive numbers in the first row may be values */
#define DECIDE_TEXT "--label-column, --path-column and --pixels-column decide, by name or number"

/* ---- values ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct csv_text csv_trimmed(const char *text, size_t bytes)
{
    while (bytes > 0 && is_blank(text[0])) {
        text++;
        bytes--;
    }
    while (bytes > 0 && is_blank(text[bytes - 1]))
        bytes--;
    return (struct csv_text){ text, bytes };
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits_at(struct csv_text value, size_t at)
{
    const size_t begin = at;

    while (at < value.bytes && is_digit(value.text[at]))
        at++;
    return at - begin;
}

/* The length of an exponent such as "e+02" at a position; 0 if there is none. The sign is required, because "e02"
 * may be part of a hexadecimal id. */
static size_t read_exponent(struct csv_text value, size_t at, int *exponent_out)
{
    if (at + 2 >= value.bytes || (value.text[at] | 32) != 'e' ||
        (value.text[at + 1] != '+' && value.text[at + 1] != '-'))
        return 0;
    const size_t digits = digits_at(value, at + 2);
    int exponent = 0;
    for (size_t i = 0; i < digits && i < 3; i++)
        exponent = exponent * 10 + (value.text[at + 2 + i] - '0');
    *exponent_out = value.text[at + 1] == '-' ? -exponent : exponent;
    return digits > 0 && digits <= 3 ? 2 + digits : 0;
}

bool csv_read_number(struct csv_text value, uint32_t *number_out)
{
    const size_t whole = digits_at(value, 0);
    const bool has_point = whole > 0 && whole < value.bytes && value.text[whole] == '.';
    const size_t fraction = has_point ? digits_at(value, whole + 1) : 0, digits = whole + fraction;
    const size_t end = digits + has_point;
    int exponent = 0;
    uint64_t number = 0;

    if (whole == 0 || (has_point && fraction == 0) || end + read_exponent(value, end, &exponent) != value.bytes)
        return false;
    const long point = (long)whole + exponent;
    for (long i = 0; i < (long)digits || (i < point && number > 0); i++) {
        const char digit = i < (long)whole ? value.text[i] : i < (long)digits ? value.text[i + 1] : '0';
        if (i >= point && digit != '0')
            return false;
        number = i < point ? number * 10 + (uint64_t)(digit - '0') : number;
        if (number >= 1000000000u)
            return false;
    }
    *number_out = (uint32_t)number;
    return true;
}

bool csv_is_number(struct csv_text value)
{
    uint32_t number;
    return csv_read_number(value, &number);
}

static bool is_byte(struct csv_text value)
{
    uint32_t number;
    return csv_read_number(value, &number) && number <= 255;
}

static bool is_bit(struct csv_text value)
{
    return value.bytes == 1 && (value.text[0] == '0' || value.text[0] == '1');
}

static bool has_image_name(struct csv_text value)
{
    char end[16] = "";
    const size_t bytes = value.bytes < sizeof(end) ? value.bytes : sizeof(end) - 1;

    memcpy(end, value.text + value.bytes - bytes, bytes);
    return image_choice_name(end);
}

/* A number with a decimal comma, such as "1,5". */
static bool is_decimal_comma(struct csv_text value)
{
    const char *const comma = memchr(value.text, ',', value.bytes);
    const size_t before = comma != NULL ? (size_t)(comma - value.text) : 0;
    return before > 0 && before + 1 < value.bytes && csv_is_number((struct csv_text){ value.text, before }) &&
           csv_is_number((struct csv_text){ comma + 1, value.bytes - before - 1 });
}

bool csv_next_pixel(struct csv_text *text, unsigned *pixel_out)
{
    while (text->bytes > 0 && strchr(" ,;[]()\t\r\n", text->text[0]) != NULL) {
        text->text++;
        text->bytes--;
    }
    if (text->bytes == 0)
        return false;
    unsigned pixel = 0;
    size_t digits = 0;
    while (digits < text->bytes && is_digit(text->text[digits]) && pixel <= 255)
        pixel = pixel * 10 + (unsigned)(text->text[digits++] - '0');
    const bool is_end = digits == text->bytes || strchr(" ,;[]()\t\r\n", text->text[digits]) != NULL;
    *pixel_out = digits > 0 && is_end ? pixel : 256;
    text->text += digits;
    text->bytes -= digits;
    return true;
}

/* The number of pixels in a text; 0 if it contains anything else. */
static size_t count_pixels(struct csv_text text)
{
    size_t count = 0;
    unsigned pixel;

    while (csv_next_pixel(&text, &pixel)) {
        if (pixel > 255)
            return 0;
        count++;
    }
    return count;
}

static bool is_pixels(struct csv_text value)
{
    return count_pixels(value) >= TEXT_PIXELS_LEAST;
}

static bool is_word(struct csv_text value, const char *word)
{
    return strlen(word) == value.bytes && strncasecmp(word, value.text, value.bytes) == 0;
}

/* 1 for "1", "true", "yes" and the like; 0 for "0", "false", "no" and the like; else -1. */
static int truth_of(struct csv_text value)
{
    static const char *const words[2][6] = { { "0", "false", "no", "f", "n", "0.0" },
                                             { "1", "true", "yes", "t", "y", "1.0" } };
    for (int truth = 0; truth < 2; truth++)
        for (size_t i = 0; i < 6; i++)
            if (is_word(value, words[truth][i]))
                return truth;
    return -1;
}

/* In Kaggle contests, the public test set is used for validation, and the private one for testing. */
static enum split split_of_words(struct csv_text value)
{
    const struct split_name name = split_name_read(value.text, value.bytes);
    if (name.split == SPLIT_TEST && strcmp(name.rest, "public") == 0)
        return SPLIT_VALIDATION;
    return name.is_whole || (name.split == SPLIT_TEST && strcmp(name.rest, "private") == 0) ? name.split
                                                                                           : SPLIT_UNSAID;
}

enum split csv_split_of(enum csv_split_kind kind, struct csv_text value)
{
    static const enum split splits[][2] = {
        [CSV_SPLIT_IS_TRAIN] = { SPLIT_TEST, SPLIT_TRAIN },
        [CSV_SPLIT_IS_VALIDATION] = { SPLIT_TRAIN, SPLIT_VALIDATION },
        [CSV_SPLIT_IS_TEST] = { SPLIT_TRAIN, SPLIT_TEST },
    };
    if (kind == CSV_SPLIT_WORDS)
        return split_of_words(value);
    const int truth = truth_of(value);
    return truth < 0 ? SPLIT_UNSAID : splits[kind][truth];
}

static bool is_split_word(struct csv_text value)
{
    return split_of_words(value) != SPLIT_UNSAID;
}

static bool is_truth(struct csv_text value)
{
    return truth_of(value) >= 0;
}

/* ---- the first rows ---- */

struct sample {
    struct csv_text *values;
    size_t count, rows;         /* count: number of columns; rows: number of complete rows */
    size_t begin;               /* the first row of values: 1 if there is a header, else 0 */
    const struct csv_choice *choice;
    struct csv_columns *columns;
    char *problem;
    size_t problem_size;
};

static int refuse(const struct sample *sample, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(const struct sample *sample, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sample->problem, sample->problem_size, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

static struct csv_text value_at(const struct sample *sample, size_t row, size_t column)
{
    return sample->values[row * sample->count + column];
}

static bool all_are(const struct sample *sample, size_t column, bool (*is)(struct csv_text value))
{
    for (size_t row = sample->begin; row < sample->rows; row++)
        if (!is(value_at(sample, row, column)))
            return false;
    return sample->rows > sample->begin;
}

/* Make room for one more value. The room is doubled whenever it is full, that is, when the count is a power of two. */
static int reserve_value(struct csv_text **values, size_t count)
{
    if ((count & (count - 1)) != 0)
        return 0;
    struct csv_text *const more = realloc(*values, (count > 0 ? 2 * count : 1) * sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    *values = more;
    return 0;
}

/* Append the values of the next row to *values. 0 or a negative errno. */
static int read_values(struct csv *csv, struct csv_text **values, size_t *count, const char **problem_out)
{
    struct csv_field field = { .ends_row = false };

    while (!field.ends_row) {
        int rc = csv_next(csv, &field, problem_out);
        if (rc == 0)
            rc = reserve_value(values, *count);
        if (rc < 0)
            return rc;
        (*values)[(*count)++] = csv_trimmed(field.text, field.bytes);
    }
    return 0;
}

/* Read the first row, and following rows as long as they have the same number of fields. */
static int read_sample(struct sample *sample, struct csv *csv, const char **problem_out)
{
    size_t count = 0;
    int rc = read_values(csv, &sample->values, &count, problem_out);

    sample->count = count;
    sample->rows = rc == 0;
    while (rc == 0 && sample->rows < SAMPLE_ROWS_MAX &&
           (sample->rows < 3 || count + sample->count <= SAMPLE_FIELDS_MAX)) {
        rc = read_values(csv, &sample->values, &count, problem_out);
        if (rc < 0 || count != (sample->rows + 1) * sample->count)
            break;
        sample->rows++;
    }
    return rc == -ENODATA && sample->rows > 0 ? 0 : rc;
}

/* ---- names ---- */

static const char *const path_names[] = {
    "path", "file", "filename", "filepath", "image", "imagepath", "imagefile", "imagename", "img", "imgpath", "imgname",
    "imagefilename", "filenames", "filepaths", "imagepaths", "images", "photo", "picture", NULL
};
static const char *const label_names[] = {
    "label", "labels", "class", "classname", "classid", "classlabel", "classes", "category", "categoryname",
    "categoryid", "target", "y", "emotion", "species", "breed", "digit", "labelname", "labelid", NULL
};
static const char *const split_names[] = {
    "split", "datasplit", "splitname", "set", "subset", "usage", "partition", "phase", "fold", "dataset", "mode",
    "stage", "purpose", NULL
};
/* Names that can only mean splits: the values of such a column have to be splits. */
static const char *const split_names_only[] = {
    "split", "datasplit", "splitname", "set", "subset", "usage", "partition", NULL
};
/* Names of flag columns without "is_". "valid" is not among them: it may be a flag of usable images. */
static const char *const bare_marks[] = {
    "train", "training", "val", "validation", "test", "testing", NULL
};
/* Names of columns that are never labels or pixels, unless an option chooses them. */
static const char *const other_names[] = {
    "id", "index", "idx", "", "unnamed", "rowid", "imageid", "uuid", "md5", "hash", "weight", "weights",
    "sampleweight", "width", "height", "w", "h", "xmin", "ymin", "xmax", "ymax", "x", "x1", "y1", "x2", "y2", "bbox",
    "box", "area", "size", "depth", "channels", "score", "confidence", "lat", "lon", "latitude", "longitude", "url",
    "date", "time", "timestamp", "text", "caption", "captions", "prompt", "description", "comment", "comments", "notes",
    NULL
};

/* Normalise a name: lower case, without punctuation, and truncated to NAME_BYTES - 1. */
static const char *plain_name(struct csv_text text, char out[NAME_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < text.bytes && used + 1 < NAME_BYTES; i++) {
        const char c = text.text[i];
        if ((c >= 'a' && c <= 'z') || is_digit(c))
            out[used++] = c;
        else if (c >= 'A' && c <= 'Z')
            out[used++] = (char)(c - 'A' + 'a');
    }
    out[used] = '\0';
    return out;
}

static bool is_one_of(struct csv_text text, const char *const *names)
{
    char name[NAME_BYTES];

    plain_name(text, name);
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

static bool is_named(const struct sample *sample, size_t column, const char *const *names)
{
    return sample->begin > 0 && is_one_of(value_at(sample, 0, column), names);
}

/* A number such as "-1.5e2", or a missing value. */
static bool is_measure(struct csv_text value)
{
    size_t i = 0;

    while (i < value.bytes && (is_digit(value.text[i]) || strchr("+-.eE", value.text[i]) != NULL))
        i++;
    return i == value.bytes || is_word(value, "nan");
}

/* Is it the y coordinate of points, because there is also a column x? Otherwise y is the label of images that are
 * called x. */
static bool is_coordinate(const struct sample *sample, size_t column)
{
    static const char *const x[] = { "x", NULL }, *const y[] = { "y", NULL };

    if (!is_named(sample, column, y) || !all_are(sample, column, is_measure))
        return false;
    for (size_t i = 0; i < sample->count; i++)
        if (is_named(sample, i, x) && all_are(sample, i, is_measure))
            return true;
    return false;
}

static bool is_other(const struct sample *sample, size_t column)
{
    const struct csv_text name = value_at(sample, 0, column);
    return is_named(sample, column, other_names) || is_coordinate(sample, column) ||
           (sample->begin > 0 && name.bytes > 7 && strncasecmp(name.text, "unnamed", 7) == 0);
}

/* The split that a flag of this name is for: "train" or "training_img" without "is_". */
static bool find_kind(struct csv_text text, enum csv_split_kind *kind_out)
{
    const struct split_name name = split_name_read(text.text, text.bytes);

    *kind_out = name.split == SPLIT_TRAIN        ? CSV_SPLIT_IS_TRAIN
                : name.split == SPLIT_VALIDATION ? CSV_SPLIT_IS_VALIDATION
                                                 : CSV_SPLIT_IS_TEST;
    return name.is_whole && name.split != SPLIT_UNSAID && name.split != SPLIT_UNLABELLED;
}

/* Is it the name of a flag: "is_train", "IsTestSet"? */
static bool find_mark(struct csv_text text, enum csv_split_kind *kind_out)
{
    return text.bytes > 2 && strncasecmp(text.text, "is", 2) == 0 &&
           find_kind((struct csv_text){ text.text + 2, text.bytes - 2 }, kind_out);
}

/* Do an option or the names determine the column of classes? */
static bool has_named_label(const struct sample *sample)
{
    bool is_there = sample->choice->label != NULL;

    for (size_t i = 0; i < sample->count; i++)
        is_there = is_there || is_named(sample, i, label_names);
    return is_there;
}

/* Is it a column of flags for a split? The name "train" or "test" alone counts only if another column is named as
 * the label; otherwise it may be one of one-hot classes. */
static bool is_mark_column(const struct sample *sample, size_t column, enum csv_split_kind *kind_out)
{
    const struct csv_text name = value_at(sample, 0, column);
    return sample->begin > 0 && (find_mark(name, kind_out) || (is_named(sample, column, bare_marks) &&
                                                               has_named_label(sample) && find_kind(name, kind_out)));
}

/* The name of the column, or "column 3" if the table has no names. */
static const char *column_text(const struct sample *sample, size_t column, char text[64])
{
    const struct csv_text name = value_at(sample, 0, column);
    if (sample->begin > 0 && name.bytes > 0)
        snprintf(text, 64, "%.*s", (int)(name.bytes < 60 ? name.bytes : 60), name.text);
    else
        snprintf(text, 64, "column %zu", column + 1);
    return text;
}

/* ---- roles ---- */

static void assign(const struct sample *sample, size_t column, enum csv_role role)
{
    struct csv_columns *const columns = sample->columns;

    columns->roles[column] = (uint8_t)role;
    if (columns->places[role] == CSV_NO_COLUMN || column < columns->places[role])
        columns->places[role] = column;
}

static bool is_free(const struct sample *sample, size_t column)
{
    return sample->columns->roles[column] == CSV_UNUSED;
}

static bool has(const struct sample *sample, enum csv_role role)
{
    return sample->columns->places[role] != CSV_NO_COLUMN;
}

static bool is_equal(struct csv_text a, struct csv_text b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

/* Do two columns correspond one to one? Then any two rows have equal values in one column exactly if they have in the
 * other. */
static bool are_one_to_one(const struct sample *sample, size_t a, size_t b)
{
    for (size_t i = sample->begin; i < sample->rows; i++)
        for (size_t k = i + 1; k < sample->rows; k++)
            if (is_equal(value_at(sample, i, a), value_at(sample, k, a)) !=
                is_equal(value_at(sample, i, b), value_at(sample, k, b)))
                return false;
    return true;
}

/* Is the value not the name of a file? A row with such a word in the column of paths is a header. */
static bool is_plain_word(struct csv_text value)
{
    return memchr(value.text, '.', value.bytes) == NULL && memchr(value.text, '/', value.bytes) == NULL;
}

static bool is_known_name(struct csv_text text)
{
    enum csv_split_kind kind;
    return text.bytes > 0 && (is_one_of(text, path_names) || is_one_of(text, label_names) || is_word(text, "pixels") ||
                              is_word(text, "split") || is_word(text, "usage") || find_mark(text, &kind));
}

/* Is there a column whose value in the first row is not an existing file, while the value in the second row is one? */
static bool has_file_below(const struct sample *sample)
{
    const struct csv_choice *const choice = sample->choice;

    for (size_t i = 0; i < sample->count && sample->rows > 1 && choice->names_file != NULL; i++)
        if (is_plain_word(value_at(sample, 0, i)) && !choice->names_file(choice->arg, value_at(sample, 0, i)) &&
            choice->names_file(choice->arg, value_at(sample, 1, i)))
            return true;
    return false;
}

/* Does the first row have the numbers 0, 1, 2, ... or 1, 2, 3, ..., as programs name columns without names? */
static bool counts_up(const struct sample *sample)
{
    const struct csv_text first = value_at(sample, 0, 0);
    char number[24];

    if (!is_bit(first) || sample->count < COUNTED_LEAST)
        return false;
    for (size_t i = 0; i < sample->count; i++) {
        snprintf(number, sizeof(number), "%zu", (size_t)(first.text[0] - '0') + i);
        if (!is_word(value_at(sample, 0, i), number))
            return false;
    }
    return true;
}

/* Does the first row contain names? */
static bool has_names(struct sample *sample)
{
    size_t numbers = 0, named = 0, words = 0;

    for (size_t i = 0; i < sample->count; i++)
        if (has_image_name(value_at(sample, 0, i)) || is_pixels(value_at(sample, 0, i)))
            return false;
    for (size_t i = 0; i < sample->count; i++)
        if (is_known_name(value_at(sample, 0, i)))
            return true;
    if (sample->rows == 1)
        return false;
    if (counts_up(sample))
        return true;
    sample->begin = 1;
    for (size_t i = 0; i < sample->count; i++) {
        const bool is_numeric = all_are(sample, i, csv_is_number);
        numbers += is_numeric;
        named += is_numeric && !csv_is_number(value_at(sample, 0, i));
        words += all_are(sample, i, has_image_name) && is_plain_word(value_at(sample, 0, i));
    }
    sample->begin = 0;
    return words > 0 || (named > 0 && 2 * named >= numbers) || (sample->count > 2 && has_file_below(sample));
}

/* Find the column that an option chooses. A number is compared with names only if the first row contains names,
 * because otherwise it may be equal to a value. */
static int find_chosen(struct sample *sample, const char *option, const char *wanted, size_t *column_out)
{
    const struct csv_text text = { wanted, strlen(wanted) };
    const bool may_be_name = !csv_is_number(text) || sample->begin > 0 || has_names(sample);

    for (size_t i = 0; i < sample->count && may_be_name; i++)
        if (is_word(value_at(sample, 0, i), wanted)) {
            *column_out = i;
            sample->begin = 1;
            return 0;
        }
    *column_out = csv_is_number(text) ? (size_t)strtoul(wanted, NULL, 10) - 1 : sample->count;
    if (*column_out < sample->count)
        return 0;
    return refuse(sample, "--%s=%s: the first row has no such name, and the table has %zu columns", option, wanted,
                  sample->count);
}

static int take_chosen(struct sample *sample, enum csv_role role, const char *option, const char *wanted)
{
    size_t column;

    const int rc = wanted != NULL ? find_chosen(sample, option, wanted, &column) : 0;
    if (rc == 0 && wanted != NULL)
        assign(sample, column, role);
    return rc;
}

static void take_split(struct sample *sample)
{
    const bool is_chosen = has(sample, CSV_SPLIT);
    enum csv_split_kind kind = CSV_SPLIT_WORDS;

    for (size_t i = 0; i < sample->count && !has(sample, CSV_SPLIT) && sample->choice->split == NULL; i++) {
        if (!is_free(sample, i) || sample->begin == 0)
            continue;
        const bool is_mark = is_mark_column(sample, i, &kind);
        if ((is_mark && all_are(sample, i, is_truth)) ||
            (is_named(sample, i, split_names) && all_are(sample, i, is_split_word)))
            assign(sample, i, CSV_SPLIT);
    }
    if (!has(sample, CSV_SPLIT))
        return;
    const size_t place = sample->columns->places[CSV_SPLIT];
    const bool is_mark = is_mark_column(sample, place, &kind);
    sample->columns->split_kind = is_mark && (!is_chosen || all_are(sample, place, is_truth)) ? kind : CSV_SPLIT_WORDS;
}

/* The first value of a column for which `is` is false; if there is none, the first value. */
static struct csv_text find_stranger(const struct sample *sample, size_t column, bool (*is)(struct csv_text))
{
    for (size_t row = sample->begin; row < sample->rows; row++)
        if (!is(value_at(sample, row, column)))
            return value_at(sample, row, column);
    return value_at(sample, sample->begin, column);
}

/* Does the name of the column mean splits, and do its values not contradict that? */
static bool must_be_split(const struct sample *sample, size_t column)
{
    bool has_word = is_named(sample, column, split_names_only);

    for (size_t row = sample->begin; row < sample->rows && is_named(sample, column, split_names); row++)
        has_word = has_word || is_split_word(value_at(sample, row, column));
    return has_word;
}

/* Check that columns of splits, by their names or as flags, contain only splits. */
static int check_splits(const struct sample *sample)
{
    char text[64];
    enum csv_split_kind kind;
    size_t count = 0;

    for (size_t i = 0; i < sample->count && sample->choice->split == NULL && sample->begin > 0; i++) {
        const bool is_free_or_split = is_free(sample, i) || sample->columns->roles[i] == CSV_SPLIT;
        const bool is_mark = is_free_or_split && is_mark_column(sample, i, &kind);
        count += is_mark;
        if (is_free(sample, i) && (must_be_split(sample, i) || (is_mark && count < 2))) {
            const struct csv_text value = find_stranger(sample, i, is_mark ? is_truth : is_split_word);
            return refuse(sample, "column %s has a value that is no split, such as '%.*s': write train, validation and "
                          "test, or give --split-column=none", column_text(sample, i, text), (int)value.bytes,
                          value.text);
        }
    }
    if (count > 1)
        return refuse(sample, "%zu columns say splits: choose one with --split-column, or write a column split with "
                      "train, validation and test", count);
    return 0;
}

/* Take a column without a known name as the splits if all of its values are splits, and another column remains for
 * the classes. */
static void take_unnamed_split(struct sample *sample)
{
    size_t column = CSV_NO_COLUMN, left = 0;

    for (size_t i = 0; i < sample->count; i++) {
        left += is_free(sample, i) && !is_other(sample, i);
        if (is_free(sample, i) && all_are(sample, i, is_split_word))
            column = i;
    }
    if (!has(sample, CSV_SPLIT) && sample->choice->split == NULL && column != CSV_NO_COLUMN &&
        left + has(sample, CSV_LABEL) > 1)
        assign(sample, column, CSV_SPLIT);
}

static int take_named_label(struct sample *sample)
{
    size_t found = CSV_NO_COLUMN;
    char one[64], other[64];

    for (size_t i = 0; i < sample->count && !has(sample, CSV_LABEL); i++) {
        if (!is_free(sample, i) || !is_named(sample, i, label_names) || is_coordinate(sample, i) ||
            all_are(sample, i, is_pixels))
            continue;
        if (found != CSV_NO_COLUMN && !are_one_to_one(sample, found, i))
            return refuse(sample, "%s and %s may both be the class: choose one with --label-column",
                          column_text(sample, found, one), column_text(sample, i, other));
        found = found != CSV_NO_COLUMN ? found : i;
    }
    if (found != CSV_NO_COLUMN)
        assign(sample, found, CSV_LABEL);
    return 0;
}

static int take_pixel_text(struct sample *sample)
{
    size_t found = sample->columns->places[CSV_PIXELS];
    char one[64], other[64];

    for (size_t i = 0; i < sample->count && found == CSV_NO_COLUMN; i++)
        if (is_free(sample, i) && all_are(sample, i, is_pixels))
            found = i;
    if (found == CSV_NO_COLUMN)
        return 0;
    for (size_t i = found + 1; i < sample->count && sample->choice->pixels == NULL; i++)
        if (is_free(sample, i) && all_are(sample, i, is_pixels))
            return refuse(sample, "%s and %s may both be the pixels: choose one with --pixels-column",
                          column_text(sample, found, one), column_text(sample, i, other));
    assign(sample, found, CSV_PIXELS);
    sample->columns->pixel_count = count_pixels(value_at(sample, sample->begin, found));
    return 0;
}

/* Is the first value of the column the path of an existing file? */
static bool names_file(const struct sample *sample, size_t column)
{
    const struct csv_choice *const choice = sample->choice;
    return sample->rows > sample->begin && choice->names_file != NULL &&
           choice->names_file(choice->arg, value_at(sample, sample->begin, column));
}

/* Numbers are taken as names of files only if no other meaning is likely. */
static bool may_be_names(const struct sample *sample, size_t column)
{
    return !all_are(sample, column, csv_is_number) || is_other(sample, column) || sample->count == 2;
}

static bool may_be_path(const struct sample *sample, size_t column, int way)
{
    if (!is_free(sample, column))
        return false;
    const bool is_image = all_are(sample, column, has_image_name), is_path = is_named(sample, column, path_names);
    return way == 0   ? is_path && (is_image || names_file(sample, column))
           : way == 1 ? is_image
           : way == 2 ? may_be_names(sample, column) && names_file(sample, column)
                      : is_path && !all_are(sample, column, is_pixels);
}

/* Find the column of paths, in four ways: by name and values, by values, because such files exist, or by name alone. */
static int take_path(struct sample *sample)
{
    char one[64], other[64];

    for (int way = 0; way < 4 && !has(sample, CSV_PATH); way++) {
        size_t found = CSV_NO_COLUMN;
        for (size_t i = 0; i < sample->count; i++) {
            if (!may_be_path(sample, i, way))
                continue;
            const bool is_better = found != CSV_NO_COLUMN && names_file(sample, i) && !names_file(sample, found);
            const bool are_alike = found != CSV_NO_COLUMN && names_file(sample, i) == names_file(sample, found);
            if (way < 3 && are_alike && !are_one_to_one(sample, found, i))
                return refuse(sample, "%s and %s may both be the file: choose one with --path-column",
                              column_text(sample, found, one), column_text(sample, i, other));
            if (way < 3 && are_alike && names_file(sample, i) &&
                !is_equal(value_at(sample, sample->begin, i), value_at(sample, sample->begin, found)))
                return refuse(sample, "%s and %s both name files: choose one with --path-column",
                              column_text(sample, found, one), column_text(sample, i, other));
            found = found == CSV_NO_COLUMN || is_better ? i : found;
        }
        if (found != CSV_NO_COLUMN)
            assign(sample, found, CSV_PATH);
    }
    return 0;
}

/* ---- a column for each pixel ---- */

/* Is it the name of a pixel: "pixel7", "px_0_1", "1x1"? */
static bool is_pixel_name(struct csv_text name)
{
    static const char *const words[] = { "pixel", "pixels", "pix", "px", "pxl" };
    char letters[NAME_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < name.bytes && used + 1 < sizeof(letters); i++)
        if ((name.text[i] | 32) >= 'a' && (name.text[i] | 32) <= 'z')
            letters[used++] = (char)(name.text[i] | 32);
    letters[used] = '\0';
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(letters, words[i]) == 0)
            return true;
    return strcmp(letters, "x") == 0 && is_digit(name.text[0]);
}

/* The number of columns with names like this one, except for numbers in them; 0 unless more than half of them have
 * pixel values. */
static size_t count_alike(const struct sample *sample, size_t column)
{
    size_t count = 0, pixels = 0;
    for (size_t i = 0; i < sample->count; i++) {
        if (!is_free(sample, i) || !pixel_names_are_alike(value_at(sample, 0, i), value_at(sample, 0, column)))
            continue;
        count++;
        pixels += all_are(sample, i, is_byte);
    }
    return 2 * pixels > count ? count : 0;
}

/* Take the free columns from `first` on as pixels; if `alike` is not NULL, only those with names like it. */
static void assign_pixels(const struct sample *sample, size_t first, const struct csv_text *alike)
{
    struct csv_columns *const columns = sample->columns;

    for (size_t i = first; i < sample->count; i++) {
        if (!is_free(sample, i) || (alike != NULL && !pixel_names_are_alike(value_at(sample, 0, i), *alike)))
            continue;
        assign(sample, i, CSV_PIXEL);
        columns->pixel_places[i] = (uint32_t)columns->pixel_count++;
    }
}

/* Derive the index of each pixel in the image from the name of its column. 0, -EINVAL if the names do not determine
 * it, -ENOMEM. */
static int order_pixels(const struct sample *sample)
{
    struct csv_columns *const columns = sample->columns;
    struct csv_text *const names = calloc(columns->pixel_count, sizeof(*names));
    uint32_t *const places = calloc(columns->pixel_count, sizeof(*places));
    int rc = names != NULL && places != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; i < sample->count && rc == 0; i++)
        if (columns->roles[i] == CSV_PIXEL)
            names[columns->pixel_places[i]] = value_at(sample, 0, i);
    if (rc == 0)
        rc = pixel_order_find(names, columns->pixel_count, places);
    for (size_t i = 0; i < sample->count && rc == 0; i++) {
        if (columns->roles[i] != CSV_PIXEL)
            continue;
        const uint32_t place = places[columns->pixel_places[i]];
        columns->are_reordered |= place != columns->pixel_places[i];
        columns->pixel_places[i] = place;
    }
    free(names);
    free(places);
    return rc;
}

/* Find a column that is not among the pixels, but may be one of at least as many other columns with pixel values;
 * CSV_NO_COLUMN if there is none. */
static size_t find_other_pixels(const struct sample *sample)
{
    size_t found = CSV_NO_COLUMN, count = 0;

    for (size_t i = 0; i < sample->count; i++) {
        if (!is_free(sample, i) || !all_are(sample, i, is_byte))
            continue;
        found = i;
        count++;
    }
    return count >= WIDE_PIXELS_LEAST && count >= sample->columns->pixel_count ? found : CSV_NO_COLUMN;
}

static int refuse_shape(const struct sample *sample)
{
    char text[64];

    return refuse(sample, "the %zu columns called like %s have rows and columns of an image that is not square: pixels "
                  "in a table are those of square images; write files and their paths", sample->columns->pixel_count,
                  column_text(sample, sample->columns->places[CSV_PIXEL], text));
}

/* Find the columns of pixels by their names. The name that most columns share is looked for in the middle, at the
 * end and at the beginning only. */
static int take_named_pixels(const struct sample *sample)
{
    const size_t half = sample->count / 2, few[] = { half, half - 1, sample->count - 1, 0 };
    struct csv_text name = value_at(sample, 0, half);
    char one[64], another[64];
    size_t count = 0;

    for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++) {
        const size_t alike = count_alike(sample, few[i]);
        name = alike > count ? value_at(sample, 0, few[i]) : name;
        count = alike > count ? alike : count;
    }
    if (count < WIDE_PIXELS_LEAST && (count < 2 || !is_pixel_name(name)))
        return 0;
    assign_pixels(sample, 0, &name);
    const size_t first = sample->columns->places[CSV_PIXEL], other = find_other_pixels(sample);
    if (other != CSV_NO_COLUMN)
        return refuse(sample, "columns called like %s and like %s may both be pixels: choose the first of them with "
                      "--pixels-column, or call those of channels r0, g0, b0, r1, ...",
                      column_text(sample, first, one), column_text(sample, other, another));
    const int rc = order_pixels(sample);
    if (rc != -EINVAL)
        return rc == -ERANGE ? refuse_shape(sample) : rc;
    return refuse(sample, "the numbers of the %zu columns called like %s have gaps or repeat, so they do not say which "
                  "pixel is where: number them 0, 1, 2, ..., or give --pixels-column=%s if they are in their order",
                  sample->columns->pixel_count, column_text(sample, first, one), one);
}

/* Take the columns of pixels that --pixels-column chooses by its first column: all columns with names like that one's,
 * if that name has a number; else all columns from there on. Pixels are in the order of the columns unless the names
 * determine another order. */
static int take_chosen_pixels(const struct sample *sample, size_t first)
{
    const struct csv_text name = value_at(sample, 0, first);
    const bool is_series = sample->begin > 0 && count_alike(sample, first) > 1;

    assign_pixels(sample, first, is_series ? &name : NULL);
    const int rc = is_series ? order_pixels(sample) : 0;
    return rc == -ERANGE ? refuse_shape(sample) : rc == -EINVAL ? 0 : rc;
}

/* Are the values of the column plausible class numbers: below 256, at least two different ones, and the largest
 * below 10 or below twice their number? */
static bool is_like_classes(const struct sample *sample, size_t column)
{
    bool is_there[256] = { false };
    size_t distinct = 0, most = 0;

    if (!all_are(sample, column, is_byte))
        return false;
    for (size_t row = sample->begin; row < sample->rows; row++) {
        uint32_t number = 0;
        csv_read_number(value_at(sample, row, column), &number);
        distinct += !is_there[number & 255];
        is_there[number & 255] = true;
        most = number > most ? number : most;
    }
    return distinct > 1 && (most < 10 || most < 2 * distinct);
}

static bool is_no_number(struct csv_text value)
{
    return !csv_is_number(value);
}

/* If all columns are numbers, the label is the first or the last column: the one with plausible class numbers. */
static int take_number_label(const struct sample *sample, size_t first, size_t last)
{
    const bool is_first = is_like_classes(sample, first), is_last = is_like_classes(sample, last);

    if (is_first == is_last)
        return refuse(sample, "cannot tell whether the first or the last column has the classes: give "
                      "--label-column=%zu or --label-column=%zu", first + 1, last + 1);
    assign(sample, is_last ? last : first, CSV_LABEL);
    return 0;
}

/* Find pixels in a table without names. The label is the column without any number, if there is one. */
static int take_unnamed_pixels(const struct sample *sample)
{
    size_t bytes = 0, words = 0, word = CSV_NO_COLUMN, first = CSV_NO_COLUMN, last = 0;
    int rc = 0;

    for (size_t i = 0; i < sample->count; i++) {
        if (!is_free(sample, i))
            continue;
        const bool is_text = all_are(sample, i, is_no_number);
        words += is_text;
        word = is_text ? i : word;
        bytes += all_are(sample, i, is_byte);
        first = first == CSV_NO_COLUMN ? i : first;
        last = i;
    }
    if (bytes < WIDE_PIXELS_LEAST || words + has(sample, CSV_LABEL) > 1)
        return 0;
    if (word != CSV_NO_COLUMN)
        assign(sample, word, CSV_LABEL);
    else if (!has(sample, CSV_LABEL))
        rc = take_number_label(sample, first, last);
    if (rc == 0)
        assign_pixels(sample, 0, NULL);
    return rc;
}

static int take_pixels(struct sample *sample)
{
    if (sample->choice->pixels != NULL) {
        const size_t first = sample->columns->places[CSV_PIXELS];
        if (count_pixels(value_at(sample, sample->begin, first)) > 1)
            return take_pixel_text(sample);
        sample->columns->places[CSV_PIXELS] = CSV_NO_COLUMN;
        sample->columns->roles[first] = CSV_UNUSED;
        return take_chosen_pixels(sample, first);
    }
    const int rc = take_pixel_text(sample);
    if (rc < 0 || has(sample, CSV_PIXELS))
        return rc;
    if (sample->begin == 0)
        return take_unnamed_pixels(sample);
    return take_named_pixels(sample);
}

/* ---- remaining columns ---- */

/* Are there one-hot classes: columns of 0 and 1, of which exactly one is 1 in each row? */
static bool is_one_hot(const struct sample *sample)
{
    size_t columns = 0;

    for (size_t i = 0; i < sample->count; i++)
        columns += is_free(sample, i) && all_are(sample, i, is_bit);
    for (size_t row = sample->begin; row < sample->rows && columns > 1; row++) {
        size_t ones = 0;
        for (size_t i = 0; i < sample->count; i++)
            ones += is_free(sample, i) && all_are(sample, i, is_bit) && value_at(sample, row, i).text[0] == '1';
        if (ones != 1)
            return false;
    }
    return columns > 1;
}

/* Find the last free column, and the number of free columns. Columns with names of other data count only if
 * takes_others. */
static size_t find_last(const struct sample *sample, bool takes_others, size_t *count_out)
{
    size_t found = CSV_NO_COLUMN;

    *count_out = 0;
    for (size_t i = 0; i < sample->count; i++) {
        if (!is_free(sample, i) || (!takes_others && is_other(sample, i)))
            continue;
        (*count_out)++;
        found = i;
    }
    return found;
}

/* List the names of the free columns, as many as fit into the text. */
static const char *list_left(const struct sample *sample, char *text, size_t size)
{
    size_t length = 0;
    char name[64];

    text[0] = '\0';
    for (size_t i = 0; i < sample->count && length + sizeof(name) + 2 < size; i++)
        if (is_free(sample, i) && !is_other(sample, i))
            length += (size_t)snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "",
                                       column_text(sample, i, name));
    return text;
}

/* Take the only free column as the label. */
static int take_last_label(struct sample *sample)
{
    char left[256];
    size_t count;

    if (has(sample, CSV_LABEL))
        return 0;
    const size_t column = find_last(sample, false, &count);
    if (count == 1 && !(sample->begin > 0 && sample->columns->places[CSV_PIXEL] != CSV_NO_COLUMN &&
                        is_pixel_name(value_at(sample, 0, column)))) {
        assign(sample, column, CSV_LABEL);
        return 0;
    }
    if (count == 0)
        return refuse(sample, "has no column of classes: add one called label, or choose one with --label-column");
    if (is_one_hot(sample))
        return refuse(sample, "columns of 0 and 1 may be one-hot classes: write one column label with the names of the "
                      "classes, or choose it with --label-column");
    return refuse(sample, "cannot tell which column has the classes: name it 'label' in the first row, or choose it "
                  "with --label-column, among %s", list_left(sample, left, sizeof(left)));
}

#define UNIQUE_ROWS_LEAST 3u

/* Does every row have a text in the column that is no number, and that no other row has? So it is with file names. */
static bool is_unique_text(const struct sample *sample, size_t column)
{
    for (size_t row = sample->begin; row < sample->rows; row++) {
        const struct csv_text value = value_at(sample, row, column);
        if (value.bytes == 0 || csv_is_number(value))
            return false;
        for (size_t other = sample->begin; other < row; other++) {
            const struct csv_text before = value_at(sample, other, column);
            if (before.bytes == value.bytes && memcmp(before.text, value.text, value.bytes) == 0)
                return false;
        }
    }
    return sample->rows - sample->begin >= UNIQUE_ROWS_LEAST;
}

/* Find the only free column for which is_unique_text is true; CSV_NO_COLUMN if there are none or several. */
static size_t find_unique_text(const struct sample *sample)
{
    size_t found = CSV_NO_COLUMN;

    for (size_t i = 0; i < sample->count; i++) {
        if (!is_free(sample, i) || !is_unique_text(sample, i))
            continue;
        if (found != CSV_NO_COLUMN)
            return CSV_NO_COLUMN;
        found = i;
    }
    return found;
}

/* Neither paths nor pixels were found: take a remaining column as the paths, or refuse the table. */
static int take_last_path(struct sample *sample)
{
    size_t count;

    const size_t column = find_last(sample, true, &count);
    if (count == 1 && !all_are(sample, column, csv_is_number)) {
        assign(sample, column, CSV_PATH);
        return 0;
    }
    if (count == 2 && sample->count == 2 && !all_are(sample, 0, csv_is_number)) {
        assign(sample, 0, CSV_PATH);
        return 0;
    }
    const size_t unique = find_unique_text(sample);
    char text[64];
    if (unique != CSV_NO_COLUMN)
        return refuse(sample, "cannot tell which column has the files: if column %s names them, give --path-column=%s; "
                      DECIDE_TEXT, column_text(sample, unique, text), text);
    if (sample->count > 4 && count > 3)
        return refuse(sample, "has numbers that may be pixels, one-hot classes, coordinates or others: " DECIDE_TEXT
                      " (the first of the columns with pixels)");
    return refuse(sample, "cannot tell which column has the files: name it 'path' in the first row; " DECIDE_TEXT);
}

static int check_label(const struct sample *sample)
{
    const size_t label = sample->columns->places[CSV_LABEL];
    char text[64];

    if (all_are(sample, label, is_decimal_comma))
        return refuse(sample, "column %s has numbers with decimal commas: write the labels as whole numbers or names",
                      column_text(sample, label, text));
    return 0;
}

static void list_unused(const struct sample *sample)
{
    struct csv_columns *const columns = sample->columns;
    size_t length = 0;
    char text[64];

    for (size_t i = 0; i < sample->count; i++) {
        if (!is_free(sample, i) || length + 70 > sizeof(columns->unused))
            continue;
        column_text(sample, i, text);
        length += (size_t)snprintf(columns->unused + length, sizeof(columns->unused) - length, "%s%s",
                                   length > 0 ? ", " : "", text);
    }
}

static int take_choices(struct sample *sample)
{
    const struct csv_choice *const choice = sample->choice;
    const bool has_split = choice->split != NULL && strcmp(choice->split, "none") != 0;

    int rc = take_chosen(sample, CSV_LABEL, "label-column", choice->label);
    if (rc == 0)
        rc = take_chosen(sample, CSV_PATH, "path-column", choice->path);
    if (rc == 0)
        rc = take_chosen(sample, CSV_SPLIT, "split-column", has_split ? choice->split : NULL);
    if (rc == 0)
        rc = take_chosen(sample, CSV_PIXELS, "pixels-column", choice->pixels);
    if (rc == 0 && choice->path != NULL && choice->pixels != NULL)
        rc = refuse(sample, "give --path-column or --pixels-column, not both");
    return rc;
}

static int find_roles(struct sample *sample)
{
    int rc = take_choices(sample);
    if (rc == 0 && sample->begin == 0)
        sample->begin = has_names(sample);
    if (rc < 0 || sample->rows <= sample->begin)
        return rc;
    take_split(sample);
    rc = check_splits(sample);
    if (rc == 0)
        rc = take_named_label(sample);
    if (rc == 0 && sample->choice->needs_named_label && !has(sample, CSV_LABEL))
        rc = -ENOMSG;
    if (rc == 0 && sample->choice->pixels == NULL)
        rc = take_path(sample);
    if (rc == 0 && !has(sample, CSV_PATH))
        rc = take_pixels(sample);
    if (rc == 0 && !has(sample, CSV_PATH) && sample->columns->pixel_count == 0)
        rc = take_last_path(sample);
    if (rc == 0)
        take_unnamed_split(sample);
    if (rc == 0)
        rc = take_last_label(sample);
    return rc < 0 ? rc : check_label(sample);
}

int csv_columns_find(struct csv_columns *columns, const char *text, size_t bytes, const struct csv_choice *choice,
                     char *problem_out, size_t problem_size, uint64_t *line_out)
{
    struct sample sample = { .choice = choice, .columns = columns, .problem = problem_out,
                             .problem_size = problem_size };
    const char *problem = "the table is empty";
    struct csv csv;

    *columns = (struct csv_columns){ 0 };
    csv_begin(&csv, text, bytes);
    int rc = read_sample(&sample, &csv, &problem);
    *line_out = sample.rows > 0 && rc == 0 ? 1 : csv.line;
    if (rc == 0 && sample.count < 2) {
        problem = memchr(sample.values[0].text, ' ', sample.values[0].bytes) != NULL
                      ? "the table has one column, for blanks do not separate any: write commas, as in 'path,label'"
                      : "the table has one column: it needs a class and a file or pixels";
        rc = -EBADMSG;
    }
    columns->count = sample.count;
    columns->roles = calloc(sample.count + 1, 1);
    columns->pixel_places = calloc(sample.count + 1, sizeof(*columns->pixel_places));
    for (int role = 0; role < CSV_ROLE_COUNT; role++)
        columns->places[role] = CSV_NO_COLUMN;
    if (rc < 0)
        snprintf(problem_out, problem_size, "%s", problem);
    if (rc == 0)
        rc = columns->roles != NULL && columns->pixel_places != NULL ? find_roles(&sample) : -ENOMEM;
    columns->has_header = sample.begin > 0;
    if (rc == 0)
        list_unused(&sample);
    free(sample.values);
    return rc == -ENODATA ? -EBADMSG : rc;
}

void csv_columns_release(struct csv_columns *columns)
{
    free(columns->roles);
    free(columns->pixel_places);
    columns->roles = NULL;
    columns->pixel_places = NULL;
}
