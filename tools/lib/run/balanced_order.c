/* Reads the labels of the training set for an order in which all classes occur equally often. */
#include "tools/lib/run/balanced_order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "loader/damage.h"
#include "loader/label_table.h"
#include "loader/record.h"
#include "stage/log.h"
#include "tools/lib/config/input_checks.h"

#define WHERE "[data] balance"

static int check(const struct settings *settings, const struct dataset *dataset, struct problems *problems)
{
    const char *problem = NULL;
    if (dataset == NULL)
        problem = "reads the labels of data.train, and there is no training set";
    else if (input_balance_problem(settings) != NULL)
        problem = input_balance_problem(settings);
    else if (*settings->train.class_weights != '\0')
        problem = "with train.class_weights rare classes would count twice: set one of them";
    if (problem != NULL)
        problems_add(problems, WHERE, "%s", problem);
    return problem != NULL ? -EINVAL : 0;
}

/* A balanced order has no place for records without a label, where another order would fail at them. */
static int check_labels(const int32_t *labels, const struct settings *settings, const struct dataset *dataset,
                        struct problems *problems)
{
    uint64_t lost = 0, first = 0;
    char text[DAMAGE_TEXT_BYTES];
    const struct record_problem what = { .text = "cannot be read, or its label is out of range" };
    for (uint64_t id = dataset->record_count; id-- > 0;)
        if (labels[id] == LABEL_UNKNOWN) {
            first = id;
            lost++;
        }
    if (lost == 0)
        return 0;
    record_describe(dataset, first, &what, text, sizeof(text));
    if (settings->data.on_corrupt == ON_CORRUPT_SKIP) {
        if (settings->rank == 0)
            log_message(LOG_RUN, "data.balance leaves out %" PRIu64 " of %" PRIu64 " records, the first: %s", lost,
                        dataset->record_count, text);
        return 0;
    }
    problems_add(problems, WHERE, "%" PRIu64 " of %" PRIu64 " records would be left out, the first: %s; data.on_corrupt = "
                 "skip leaves them out", lost, dataset->record_count, text);
    return -EBADMSG;
}

int balanced_order_find(struct run_plan *plan, const struct settings *settings, const struct dataset *dataset,
                        struct problems *problems)
{
    int32_t *labels;
    if (!settings->data.balance || settings->input.source == INPUT_SYNTHETIC)
        return 0;
    int rc = check(settings, dataset, problems);
    if (rc == 0)
        rc = label_table_make(&labels, dataset, plan->decode_threads > 0 ? plan->decode_threads : 1);
    if (rc != 0)
        return rc;
    rc = check_labels(labels, settings, dataset, problems);
    if (rc == 0)
        rc = order_classes_make(&plan->classes, labels, dataset->record_count);
    free(labels);
    if (rc != -ENODATA)
        return rc;
    problems_add(problems, WHERE, "no record of data.train has a label in range");
    return -EINVAL;
}
