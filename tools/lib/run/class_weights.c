/* Weights of classes in the loss. */
#include "tools/lib/run/class_weights.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "loader/label_table.h"
#include "stage/text/decimal.h"
#include "stage/text/names.h"
#include "tools/lib/config/config.h"
#include "tools/lib/results/named_classes.h"
#include "tools/lib/text/wrapped.h"

#define AUTO "auto"
#define WHERE "[train] class_weights"
#define FILE_BYTES_MAX ((size_t)16 << 20)
/* Weights other than 0: their quotients, and those by a sum of them, are finite and not 0. */
#define WEIGHT_MIN 1e-15
#define WEIGHT_MAX 1e15
#define LINE_TEXT "the name or the number of a class, a blank, and a weight: 0, or a number from 1e-15 to 1e15"
#define LISTED_MAX 10u          /* with more classes, only the smallest and the largest weight are printed */

/* ---- auto ---- */

int class_weights_balance(const int32_t *labels, uint64_t count, uint32_t classes, float *weights_out)
{
    uint64_t known = 0, *const records = calloc(classes, sizeof(*records));
    uint32_t present = 0;
    if (records == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < count; i++)
        if (labels[i] != LABEL_UNKNOWN) {
            known++;
            present += records[labels[i]]++ == 0;
        }
    for (uint32_t c = 0; c < classes; c++)
        weights_out[c] = records[c] == 0 ? 1 : (float)((double)known / ((double)present * (double)records[c]));
    free(records);
    return 0;
}

static int find_balanced(struct run_plan *plan, const struct dataset *dataset, uint32_t classes,
                         struct problems *problems)
{
    int32_t *labels;
    if (dataset == NULL) {
        problems_add(problems, WHERE, "auto counts the records of each class in data.train, and there is no training set: "
                     "name a file of weights");
        return -EINVAL;
    }
    int rc = label_table_make(&labels, dataset, plan->decode_threads > 0 ? plan->decode_threads : 1);
    if (rc != 0)
        return rc;
    rc = class_weights_balance(labels, dataset->record_count, classes, plan->class_weights);
    free(labels);
    return rc;
}

/* ---- a file ---- */

/* A list that is being read. */
struct list {
    float *weights;
    uint32_t classes;
    const struct class_names *names;
    const char *number_name;    /* a name that is a number: then numbers are names only, because both could be meant;
                                 * NULL: there is none */
    uint32_t *lines;            /* by class: its line, from 1; 0: none yet */
    struct problems *problems;
    uint64_t good, bad;         /* lines with a weight; wrong lines */
};

static const char *find_number_name(const struct class_names *names)
{
    uint64_t number;
    for (uint32_t i = 0; i < names->count; i++)
        if (decimal_u64(names->names[i], &number))
            return names->names[i];
    return NULL;
}

/* Find the class of a name, or of a number. 0, -ENOENT, or -ENOTUNIQ if several classes have the name. */
static int find_class(const struct list *list, const char *name, uint32_t *class_out)
{
    uint64_t number;
    const int rc = class_names_find(list->names, (const uint8_t *)name, strlen(name), class_out);
    if (rc != -ENOENT)
        return rc != 0 || *class_out < list->classes ? rc : -ENOENT;
    if (list->number_name != NULL || !decimal_u64(name, &number) || number >= list->classes)
        return -ENOENT;
    *class_out = (uint32_t)number;
    return 0;
}

static void refuse_class(struct list *list, const char *where, const char *name, int rc)
{
    struct nearest nearest = { .name = name };
    uint64_t number;
    list->bad++;
    if (rc == -ENOTUNIQ) {
        problems_add(list->problems, where, "several classes are called '%s': %s", name,
                     list->number_name != NULL ? "give them different names" : "write the number of one of them");
        return;
    }
    if (list->number_name != NULL && decimal_u64(name, &number)) {
        problems_add(list->problems, where, "there is no class '%s': classes have numbers as names here (such as '%s'): "
                     "write a name", name, list->number_name);
        return;
    }
    for (uint32_t i = 0; i < list->names->count && i < list->classes; i++)
        nearest_offer(&nearest, list->names->names[i], list->names->names[i]);
    if (nearest.best != NULL)
        problems_add(list->problems, where, "there is no class '%s': is it '%s'?", name, (const char *)nearest.best);
    else
        problems_add(list->problems, where, "there is no class '%s': the classes are 0 to %" PRIu32 "%s", name,
                     list->classes - 1, list->names->count > 0 ? " and their names" : ", without names");
}

/* Set a weight from the words of a line; `number` is NULL if the line has one word. */
static void read_words(struct list *list, const char *where, uint32_t line, const char *name, const char *number)
{
    uint32_t class;
    const int rc = find_class(list, name, &class);
    const char *const end = number != NULL ? decimal_end(number) : NULL;
    const double weight = end != NULL && *end == '\0' ? decimal_read(number) : -1;
    if (weight != 0 && !(weight >= WEIGHT_MIN && weight <= WEIGHT_MAX)) {
        problems_add(list->problems, where, "'%s' is no weight: write " LINE_TEXT, number != NULL ? number : name);
        list->bad++;
    } else if (rc != 0) {
        refuse_class(list, where, name, rc);
    } else if (list->lines[class] != 0) {
        problems_add(list->problems, where, "class '%s' has a weight in line %" PRIu32 " already", name,
                     list->lines[class]);
        list->bad++;
    } else {
        list->weights[class] = weight == 0 ? 0 : (float)weight;     /* not -0 */
        list->lines[class] = line;
        list->good++;
    }
}

static char *trimmed(char *text)
{
    text += strspn(text, " \t\r");
    for (size_t bytes = strlen(text); bytes > 0 && strchr(" \t\r", text[bytes - 1]) != NULL;)
        text[--bytes] = '\0';
    return text;
}

/* Split a line at its last blank, because names may contain blanks. */
static void read_line(struct list *list, const char *path, uint32_t line, char *text)
{
    char where[PATH_MAX + 32];
    char *const name = trimmed(text);
    size_t at = strlen(name);
    if (at == 0 || *name == '#')
        return;
    while (at > 0 && name[at - 1] != ' ' && name[at - 1] != '\t')
        at--;
    const char *const number = at > 0 ? name + at : NULL;
    if (at > 0)
        name[at - 1] = '\0';
    snprintf(where, sizeof(where), "%s:%" PRIu32, path, line);
    read_words(list, where, line, trimmed(name), number);
}

static bool is_all_zero(const float *weights, uint32_t classes)
{
    for (uint32_t c = 0; c < classes; c++)
        if (weights[c] > 0)
            return false;
    return true;
}

/* A copy of the text with a terminating zero, without a byte order mark. NULL: out of memory. */
static char *copy_text(const char *text, size_t bytes)
{
    static const char bom[] = "\xef\xbb\xbf";
    const size_t skipped = bytes >= 3 && memcmp(text, bom, 3) == 0 ? 3 : 0;
    return strndup(text + skipped, bytes - skipped);
}

/* A NUL byte, as in UTF-16, would end the text too early. */
static int check_nul(const char *path, const char *text, size_t bytes, struct problems *problems)
{
    uint32_t line = 1;
    const char *const nul = bytes > 0 ? memchr(text, '\0', bytes) : NULL;
    if (nul == NULL)
        return 0;
    for (const char *at = text; at < nul; at++)
        line += *at == '\n';
    problems_add(problems, path, "line %" PRIu32 " contains a NUL byte: save the file as UTF-8", line);
    return -EINVAL;
}

/* The problem of a text whose lines are right. NULL: there is none. */
static const char *text_problem(const struct list *list)
{
    if (list->good == 0)
        return "has no weights: write a line for a class: " LINE_TEXT;
    return is_all_zero(list->weights, list->classes) ? "all weights are 0, so nothing would be trained" : NULL;
}

int class_weights_read(float *weights_out, uint32_t classes, const struct class_names *names, const char *text,
                       size_t bytes, const char *path, struct problems *problems)
{
    struct list list = { .weights = weights_out, .classes = classes, .names = names,
                         .number_name = find_number_name(names), .problems = problems,
                         .lines = calloc(classes, sizeof(*list.lines)) };
    char *const copy = copy_text(text, bytes), *rest = copy;
    uint32_t line = 0;
    int rc = list.lines == NULL || copy == NULL ? -ENOMEM : check_nul(path, text, bytes, problems);
    for (uint32_t c = 0; c < classes; c++)
        weights_out[c] = 1;
    for (char *at; rc == 0 && (at = strsep(&rest, "\n")) != NULL;)
        read_line(&list, path, ++line, at);
    free(list.lines);
    free(copy);
    if (rc != 0 || list.bad > 0)
        return rc != 0 ? rc : -EINVAL;
    const char *const problem = text_problem(&list);
    if (problem != NULL)
        problems_add(problems, path, "%s", problem);
    return problem != NULL ? -EINVAL : 0;
}

/* Are there records that train? Only weights of 0 leave records out, so that labels are read only where there is
 * one. */
static int check_records(const struct run_plan *plan, const char *path, const struct dataset *dataset,
                         uint32_t classes, struct problems *problems)
{
    int32_t *labels;
    bool has_zero = false, is_trained = false;
    for (uint32_t c = 0; c < classes; c++)
        has_zero = has_zero || plan->class_weights[c] == 0;
    if (!has_zero || dataset == NULL)
        return 0;
    const int rc = label_table_make(&labels, dataset, plan->decode_threads > 0 ? plan->decode_threads : 1);
    if (rc != 0)
        return rc;
    for (uint64_t i = 0; i < dataset->record_count && !is_trained; i++)
        is_trained = labels[i] == LABEL_UNKNOWN || plan->class_weights[labels[i]] > 0;
    free(labels);
    if (is_trained)
        return 0;
    problems_add(problems, path, "the weights of all classes that have records are 0, so nothing would be trained");
    return -EINVAL;
}

static int find_in_file(struct run_plan *plan, const char *path, const struct dataset *dataset, uint32_t classes,
                        struct problems *problems)
{
    const struct class_names nameless = { .count = 0 };
    char *text;
    size_t bytes;
    int rc = config_text_read(path, FILE_BYTES_MAX, "list of class weights", &text, &bytes, problems);
    if (rc == -ENODATA)
        problems_add(problems, WHERE, "takes auto, or a file of classes and weights");
    if (rc != 0)
        return rc;
    rc = class_weights_read(plan->class_weights, classes, dataset != NULL ? &dataset->class_names : &nameless, text,
                            bytes, path, problems);
    free(text);
    return rc != 0 ? rc : check_records(plan, path, dataset, classes, problems);
}

/* ---- the weights of a run ---- */

int class_weights_scale(float *weights, uint32_t classes)
{
    float most = 0;
    int exponent;
    for (uint32_t c = 0; c < classes; c++)
        most = weights[c] > most ? weights[c] : most;
    frexpf(most, &exponent);
    for (uint32_t c = 0; c < classes; c++)
        weights[c] = ldexpf(weights[c], -exponent);
    return exponent;
}

/* A parameter server updates with sums that towers do not see. */
static int check_mode(const struct run_plan *plan, struct problems *problems)
{
    const struct sync_ops *const mode = plan->devices.mode;
    if (!mode->has_owners && mode->serves == SERVES_NOBODY)
        return 0;
    problems_add(problems, WHERE, "mode %s does not divide by the sum of class weights: set sync.mode = replicated, "
                 "independent or averaging", mode->name);
    return -EINVAL;
}

int class_weights_find(struct run_plan *plan, const struct settings *settings, const struct net *net,
                       const struct dataset *dataset, struct problems *problems)
{
    const char *const how = settings->train.class_weights;
    const uint32_t classes = net->classes;
    if (*how == '\0')
        return 0;
    int rc = check_mode(plan, problems);
    if (rc != 0)
        return rc;
    plan->class_weights = calloc(classes, sizeof(*plan->class_weights));
    if (plan->class_weights == NULL)
        return -ENOMEM;
    rc = strcmp(how, AUTO) == 0 ? find_balanced(plan, dataset, classes, problems)
                                : find_in_file(plan, how, dataset, classes, problems);
    plan->class_weights_hash = XXH3_64bits(plan->class_weights, classes * sizeof(*plan->class_weights));
    plan->class_weights_exponent = class_weights_scale(plan->class_weights, classes);
    return rc;
}

void class_weights_print(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                         const struct dataset *dataset, FILE *out)
{
    const struct class_names nameless = { .count = 0 }, *const names = dataset != NULL ? &dataset->class_names : &nameless;
    char list[LISTED_MAX * (sizeof(struct class_text) + 32)] = "";
    float least = INFINITY, most = 0;
    if (plan->class_weights == NULL)
        return;
    for (uint32_t c = 0; c < net->classes; c++) {
        const float weight = ldexpf(plan->class_weights[c], plan->class_weights_exponent);
        least = weight < least ? weight : least;
        most = weight > most ? weight : most;
        if (net->classes <= LISTED_MAX)
            snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s=%.4g", c == 0 ? ": " : ", ",
                     class_text_of(names, c).text, (double)weight);
    }
    wrapped_print(out, "classes   weights in the loss from %.4g to %.4g (%s)%s", (double)least, (double)most,
                  settings->train.class_weights, list);
}
