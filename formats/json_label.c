/* Reads labels of images from JSON with jansson. Called by the main thread of pipetrain-convert. Pure. */
#include "formats/json_label.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

/* Names of members with labels, in lower case and without punctuation. */
static const char *const usual_names[] = {
    "label", "labels", "labelname", "labelid", "class", "classname", "classid", "classlabel", "cls", "category",
    "categoryname", "categoryid", "target", "species", "breed",
};

static int label_problem(char *out, size_t size, const char *what, const char *more)
{
    snprintf(out, size, "%s%s", what, more);
    return -EBADMSG;
}

static bool is_usual(const char *name)
{
    char plain[32];
    size_t used = 0, i = 0;

    for (; *name != '\0' && used + 1 < sizeof(plain); name++)
        if (isalnum((unsigned char)*name))
            plain[used++] = (char)tolower((unsigned char)*name);
    plain[used] = '\0';
    while (i < sizeof(usual_names) / sizeof(usual_names[0]) && strcmp(usual_names[i], plain) != 0)
        i++;
    return i < sizeof(usual_names) / sizeof(usual_names[0]);
}

/* Find the only member with a usual name. 0, -ENODATA, or -EINVAL with a list of them. */
static int find_member(json_t *object, char member[JSON_MEMBER_BYTES], char *problem, size_t problem_size)
{
    const char *name, *found = NULL;
    json_t *value;
    size_t count = 0, length = 0;

    problem[0] = '\0';
    json_object_foreach(object, name, value) {
        if (!is_usual(name) || strlen(name) >= JSON_MEMBER_BYTES)
            continue;
        found = name;
        if (length < problem_size)
            length += (size_t)snprintf(problem + length, problem_size - length, "%s%s", count > 0 ? ", " : "", name);
        count++;
    }
    if (count == 1)
        snprintf(member, JSON_MEMBER_BYTES, "%s", found);
    return count == 0 ? -ENODATA : count == 1 ? 0 : -EINVAL;
}

/* Write a value as a label. */
static int write_label(const json_t *value, char out[JSON_LABEL_BYTES], char *problem, size_t problem_size)
{
    const double number = json_number_value(value);

    if (json_is_string(value)) {
        if (json_string_length(value) >= JSON_LABEL_BYTES)
            return label_problem(problem, problem_size, "is a text of over 511 bytes, which is no label", "");
        if (strlen(json_string_value(value)) != json_string_length(value))
            return label_problem(problem, problem_size, "holds a zero byte", "");
        strcpy(out, json_string_value(value));
        return 0;
    }
    if (json_is_array(value))
        return label_problem(problem, problem_size, "is a list: an image has one class", "");
    if (json_is_object(value))
        return label_problem(problem, problem_size, "is an object, not a number or a name", "");
    if (json_is_boolean(value))
        snprintf(out, JSON_LABEL_BYTES, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        snprintf(out, JSON_LABEL_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (number == floor(number) && fabs(number) < 1e15)
        snprintf(out, JSON_LABEL_BYTES, "%.0f", number);
    else
        return label_problem(problem, problem_size, "is a number that is not whole, which is no class", "");
    return 0;
}

static int read_document(json_t *root, char member[JSON_MEMBER_BYTES], char label_out[JSON_LABEL_BYTES],
                         char *problem, size_t problem_size)
{
    if (!json_is_object(root))
        return json_is_array(root) ? label_problem(problem, problem_size, "is a list, not an object with a label", "")
                                   : write_label(root, label_out, problem, problem_size);
    const int rc = member[0] != '\0' ? 0 : find_member(root, member, problem, problem_size);
    const json_t *const value = rc == 0 ? json_object_get(root, member) : NULL;
    if (rc < 0 || value == NULL || json_is_null(value))
        return rc < 0 ? rc : -ENODATA;
    char text[128];
    const int written = write_label(value, label_out, text, sizeof(text));
    if (written < 0)
        snprintf(problem, problem_size, "its member %s %s", member, text);
    return written;
}

int json_label_read(const char *text, size_t bytes, char member[JSON_MEMBER_BYTES],
                    char label_out[JSON_LABEL_BYTES], char *problem_out, size_t problem_size)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t skipped = bytes >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    json_error_t error;

    errno = 0;      /* jansson reports a failed allocation only by errno, and not always */
    json_t *const root = json_loadb(text + skipped, bytes - skipped, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return errno == ENOMEM ? -ENOMEM : label_problem(problem_out, problem_size, "is no JSON: ", error.text);
    const int rc = json_is_null(root) ? -ENODATA : read_document(root, member, label_out, problem_out, problem_size);
    json_decref(root);
    return rc;
}
