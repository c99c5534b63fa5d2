/* Reads the labels of the training set for an order in which all classes occur equally often. */
#include "tools/lib/run/balanced_order.h"

#include <errno.h>
#include <stdlib.h>

#include "loader/label_table.h"

#define WHERE "[data] balance"

static int check(const struct settings *settings, const struct dataset *dataset, struct problems *problems)
{
    const char *problem = NULL;
    if (dataset == NULL)
        problem = "reads the labels of data.train, and there is no training set";
    else if (settings->data.shuffle != SHUFFLE_FULL)
        problem = "chooses single records, and data.shuffle = block and none read them in order: set data.shuffle = full";
    else if (*settings->train.class_weights != '\0')
        problem = "with train.class_weights rare classes would count twice: set one of them";
    if (problem != NULL)
        problems_add(problems, WHERE, "%s", problem);
    return problem != NULL ? -EINVAL : 0;
}

int balanced_order_find(struct run_plan *plan, const struct settings *settings, const struct dataset *dataset,
                        struct problems *problems)
{
    int32_t *labels;
    if (!settings->data.balance)
        return 0;
    int rc = check(settings, dataset, problems);
    if (rc == 0)
        rc = label_table_make(&labels, dataset, plan->decode_threads > 0 ? plan->decode_threads : 1);
    if (rc != 0)
        return rc;
    rc = order_classes_make(&plan->classes, labels, dataset->record_count);
    free(labels);
    if (rc != -ENODATA)
        return rc;
    problems_add(problems, WHERE, "no record of data.train has a label in range");
    return -EINVAL;
}
