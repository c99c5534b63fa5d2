/* Find the names of classes. */
#include "tools/predict/known_names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/shard_list.h"
#include "loader/shards/text.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "tools/lib/results/named_classes.h"
#include "tools/lib/results/weights.h"
#include "tools/lib/run/run_data.h"

#define LIST_BYTES 300          /* bytes of names in a message */

/* Read a list of names. 0; -ENODATA if the list is invalid, after a message; -ENOMEM. */
static int read_list(struct class_names *listed, const char *text, size_t bytes, const char *path)
{
    char problem[256] = "";
    const int rc = class_names_read(listed, text, bytes, problem, sizeof(problem));
    if (rc == 0 || rc == -ENOMEM)
        return rc;
    log_message(LOG_ERROR, "%s: %s", path, problem);
    return -ENODATA;
}

static int read_file(struct class_names *listed, const char *path)
{
    char *text;
    size_t bytes;
    int rc = file_load(path, CLASS_NAMES_BYTES_MAX, &text, &bytes);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s: %s", path, file_load_problem(rc));
        return rc == -ENOMEM ? rc : -ENODATA;
    }
    rc = read_list(listed, text, bytes, path);
    free(text);
    return rc;
}

/* Read the list, unless the data set has read it: data.class_names, or a file next to its shards. */
static int find_list(struct known_names *names, const struct trained *trained)
{
    const char *const path = trained->settings->data.class_names;
    const char *const text = initial_weights_text(trained->weights, WEIGHTS_CLASS_NAMES);
    if (trained->dataset != NULL && trained->dataset->class_names.count > 0)
        return 0;
    if (*path != '\0')
        return read_file(&names->listed, path);
    return text == NULL ? 0 : read_list(&names->listed, text, strlen(text), trained->weights_path);
}

/* Report a set with fewer classes than the network. Not for a set with names, which are compared with the weights'
 * names. */
static void report_spare(const struct trained *trained)
{
    const struct dataset *const dataset = trained->dataset;
    const uint64_t classes = dataset->stored_classes;
    const bool is_told = dataset->class_names.count == 0 && dataset->options.part != DATASET_HELD_OUT;
    if (dataset->classes_said_in != NULL && !is_told && classes <= DATASET_CLASSES_MAX &&
        (int64_t)classes + dataset->options.label_offset < (int64_t)trained->net->classes)
        log_message(LOG_RUN, "%s: %s says %" PRIu64 " classes, the weights are of a network with %" PRIu32 " and do "
                    "not name them: right only if label k of the set is output k", dataset->options.what,
                    shard_base_name(dataset->classes_said_in), classes, trained->net->classes);
}

/* Check a set for weights without class names. A smaller number of classes than the network's is only reported; but if
 * data.train is set, the names must be those of data.train. 0 or -ENODATA after a message. */
static int check_unnamed(const struct trained *trained)
{
    const struct data_settings *const data = &trained->settings->data;
    const struct dataset *const dataset = trained->dataset;
    const bool may_differ = trained->settings->model.weights_differ;
    char here[LIST_BYTES], there[LIST_BYTES];
    report_spare(trained);
    if (!shards_name_differently(data->train, dataset->options.pattern, data->label_key, there, here, LIST_BYTES))
        return 0;
    log_message(may_differ ? LOG_RUN : LOG_ERROR, "%s: its classes are not those of train: %s; train has %s%s",
                dataset->options.what, here, there,
                may_differ ? " (model.weights_differ = yes)"
                           : ": convert both sets together, name the classes of both with data.class_names = FILE, set "
                             "data.train to the set of the weights, or model.weights_differ = yes");
    return may_differ ? 0 : -ENODATA;
}

/* Check that data set and weights have the same names. 0, -ENODATA after a message, or -ENOMEM. */
static int check_weights(const struct trained *trained)
{
    const char *const text = initial_weights_text(trained->weights, WEIGHTS_CLASS_NAMES);
    const struct dataset *const dataset = trained->dataset;
    char here[LIST_BYTES], there[LIST_BYTES];
    if (dataset == NULL || *trained->settings->data.class_names != '\0')
        return 0;
    if (text == NULL)
        return check_unnamed(trained);
    const bool may_differ = trained->settings->model.weights_differ;
    const int rc = dataset_names_differ(dataset, text, here, there, LIST_BYTES);
    if (rc == -EBADMSG)
        log_message(LOG_ERROR, "%s: its names of classes are no list of names", trained->weights_path);
    if (rc == 1)
        log_message(may_differ ? LOG_RUN : LOG_ERROR, "%s was trained with other classes: %s; those of %s are %s%s",
                    trained->weights_path, there, dataset->options.pattern, here,
                    may_differ ? " (model.weights_differ = yes)"
                               : ": convert the data together with the training set, name the classes of both with "
                                 "data.class_names = FILE, or set model.weights_differ = yes");
    return rc == 1 && may_differ ? 0 : rc == 0 || rc == -ENOMEM ? rc : -ENODATA;
}

/* Check data.class_names. It may rename the weights' classes, but a name that the weights have for one class must not
 * be the name of another. 0, -EINVAL after a message, -ENODATA or -ENOMEM. */
static int check_order(const struct class_names *known, const struct trained *trained)
{
    const char *const path = trained->settings->data.class_names;
    const char *const text = initial_weights_text(trained->weights, WEIGHTS_CLASS_NAMES);
    struct class_names learnt = { .count = 0 };
    uint32_t other = 0, c = 0;
    if (text == NULL || *path == '\0')
        return 0;
    const int rc = read_list(&learnt, text, strlen(text), trained->weights_path);
    while (rc == 0 && c < known->count && c < learnt.count &&
           (strcmp(known->names[c], learnt.names[c]) == 0 || *known->names[c] == '\0' ||
            class_names_find(&learnt, (const uint8_t *)known->names[c], strlen(known->names[c]), &other) != 0))
        c++;
    const bool differ = rc == 0 && c < known->count && c < learnt.count;
    const bool may_differ = trained->settings->model.weights_differ;
    char name[LIST_BYTES];
    if (differ)
        log_escape(known->names[c], strlen(known->names[c]), name, sizeof(name));
    if (differ)
        log_message(may_differ ? LOG_RUN : LOG_PROBLEM, "%s: class %" PRIu32 " is '%s', which is class %" PRIu32
                    " of %s%s", path, c, name, other, trained->weights_path,
                    may_differ ? " (model.weights_differ = yes)"
                               : ": name the classes in the order of the weights, or set model.weights_differ = yes");
    class_names_release(&learnt);
    return differ && !may_differ ? -EINVAL : rc;
}

/* Check that the texts in the records agree with the names, wherever these are from. Returns the codes of
 * check_order. */
static int check_texts(const struct trained *trained, const struct class_names *known)
{
    struct problems problems;
    const struct dataset *const dataset = trained->dataset;
    if (dataset == NULL)
        return 0;
    problems_init(&problems);
    const char *const path = known == &dataset->class_names ? dataset->class_names_path : trained->weights_path;
    const int rc = run_data_check_texts(dataset, known, path, &problems);
    const bool is_right = problems.count == 0;
    problems_print(&problems);
    problems_release(&problems);
    return rc == -ENOMEM ? rc : is_right ? 0 : -ENODATA;
}

/* A list may name fewer classes; but then it may be that of another set. With a data set, dataset_open reports this. */
static void report_length(const struct known_names *names, const struct trained *trained)
{
    const uint32_t count = names->listed.count, classes = trained->net->classes;
    const char *const path = trained->settings->data.class_names;
    if (trained->dataset == NULL && *path != '\0' && count != classes)
        log_message(LOG_RUN, "%s names %" PRIu32 " class%s, the network has %" PRIu32, path, count,
                    count == 1 ? "" : "es", classes);
}

int known_names_find(struct known_names *names, const struct trained *trained)
{
    const uint32_t classes = trained->net->classes;
    bool has_any = false;
    int rc = find_list(names, trained);
    if (rc == 0)
        rc = check_weights(trained);
    const struct class_names *const known =
        names->listed.count > 0 || trained->dataset == NULL ? &names->listed : &trained->dataset->class_names;
    if (rc == 0)
        rc = check_order(known, trained);
    if (rc == 0)
        rc = check_texts(trained, known);
    if (rc == 0)
        report_length(names, trained);
    const char **const all = rc == 0 ? calloc(classes, sizeof(*all)) : NULL;
    if (rc == -ENOMEM || (rc == 0 && all == NULL)) {
        log_message(LOG_ERROR, "class names: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    if (rc != 0)
        return rc == -EINVAL ? EXIT_CODE_USAGE : EXIT_CODE_DATA;
    for (uint32_t c = 0; c < classes; c++) {
        all[c] = c < known->count ? known->names[c] : "";
        has_any |= all[c][0] != '\0';
    }
    if (has_any)
        names->names = all;
    else
        free(all);
    return 0;
}

void known_names_release(struct known_names *names)
{
    free(names->names);
    class_names_release(&names->listed);
    *names = (struct known_names){ .names = NULL };
}
