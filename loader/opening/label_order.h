/* Whether the order of training leaves records of one class together, as it does where a set is stored class by
 * class and not mixed enough. */
#ifndef PIPETRAIN_LABEL_ORDER_H
#define PIPETRAIN_LABEL_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "loader/order.h"

/* Of some pairs of records that follow each other in the order, spread evenly over an epoch. */
struct label_order {
    uint32_t pairs;             /* whose labels can be read */
    uint32_t equal;             /* have the same label */
    double expected;            /* of `pairs`, if the records were mixed */
    bool is_one_label;          /* all labels read are equal, of several records */
    int64_t label;              /* which is that one, as stored */
};

/* Read the labels of some pairs in the first epoch's order of this seed. 0, -ENOMEM, or -ECANCELED soon after the set
 * has become unwanted. Blocks on the file system. */
int label_order_look(struct label_order *look_out, const struct dataset *dataset, const struct order_shape *shape,
                     uint64_t seed);
/* Whether that are far more than chance explains. */
bool label_order_is_sorted(const struct label_order *look);

#endif
