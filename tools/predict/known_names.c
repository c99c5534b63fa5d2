/* Find the names of classes. */
#include "tools/predict/known_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/text.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "tools/results/named_classes.h"
#include "tools/results/weights.h"

#define LIST_BYTES 300          /* of names in a message */

/* 0; -ENODATA if the list is invalid, after a message; -ENOMEM. */
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

/* A data set has read data.class_names, or a file next to its shards. */
static int find_list(struct known_names *names, const struct trained *trained)
{
    const char *const path = trained->settings->data.class_names;
    const char *const text = initial_weights_text(trained->weights, WEIGHTS_CLASS_NAMES);
    const struct dataset *const dataset = trained->dataset;
    if (dataset != NULL && dataset->class_names.count > 0)
        return 0;
    if (*path != '\0')
        return read_file(&names->listed, path);
    const int rc = dataset != NULL ? label_names_read(&names->of_data, dataset->paths[0]) : 0;
    if (rc != 0 && rc != -ENOMEM)
        log_message(LOG_ERROR, "class names next to %s: %s", dataset->paths[0], strerror(-rc));
    if (rc != 0)
        return rc;
    const bool is_beside = names->of_data.manifest.class_count > 0 || names->of_data.listed.count > 0;
    return is_beside || text == NULL ? 0 : read_list(&names->listed, text, strlen(text), trained->weights_path);
}

static struct named_classes named(const struct known_names *names, const struct dataset *dataset)
{
    const bool is_own = names->listed.count > 0 || dataset == NULL;
    return (struct named_classes){ is_own ? &names->listed : &dataset->class_names, &names->of_data };
}

/* Check that data set and weights have the same names. 0, -ENODATA after a message, or -ENOMEM. */
static int check_weights(const struct known_names *names, const struct trained *trained)
{
    const char *const text = initial_weights_text(trained->weights, WEIGHTS_CLASS_NAMES);
    const uint32_t classes = trained->net->classes;
    const struct dataset *const dataset = trained->dataset;
    const struct named_classes data = named(names, dataset);
    struct class_names outputs = { .count = 0 };
    char here[LIST_BYTES], there[LIST_BYTES];
    if (dataset == NULL || text == NULL || *trained->settings->data.class_names != '\0')
        return 0;
    int rc = read_list(&outputs, text, strlen(text), trained->weights_path);
    const struct named_classes learnt = { &outputs, NULL };
    if (rc == 0 && named_classes_differ(&data, &learnt, classes)) {
        named_classes_describe(&data, classes, here, sizeof(here));
        named_classes_describe(&learnt, classes, there, sizeof(there));
        log_message(LOG_ERROR, "%s was trained with other classes: %s; those of %s are %s: convert the data "
                    "together with the training set, or name the classes of both with data.class_names = FILE",
                    trained->weights_path, there, dataset->options.pattern, here);
        rc = -ENODATA;
    }
    class_names_release(&outputs);
    return rc;
}

int known_names_find(struct known_names *names, const struct trained *trained)
{
    const uint32_t classes = trained->net->classes;
    bool has_any = false;
    int rc = find_list(names, trained);
    if (rc == 0)
        rc = check_weights(names, trained);
    const struct named_classes known = named(names, trained->dataset);
    const char **const all = rc == 0 ? calloc(classes, sizeof(*all)) : NULL;
    if (rc == -ENOMEM || (rc == 0 && all == NULL)) {
        log_message(LOG_ERROR, "class names: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    if (rc != 0)
        return EXIT_CODE_DATA;
    for (uint32_t c = 0; c < classes; c++) {
        all[c] = named_classes_find(&known, c);
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
    label_names_release(&names->of_data);
    *names = (struct known_names){ .names = NULL };
}
