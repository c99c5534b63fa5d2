/* The data sets of a run: opened, checked against each other, told. From main's thread. */
#ifndef PIPETRAIN_RUN_DATA_H
#define PIPETRAIN_RUN_DATA_H

#include <stdbool.h>
#include <stdio.h>

#include "compute/net.h"
#include "loader/dataset.h"
#include "loader/order.h"
#include "stage/schedule.h"
#include "tools/config/problems.h"
#include "tools/config/settings.h"

/* Take data.classes from the description of the data set (dataset.json) where the user does not set it and it is
 * not the model's usual number: for a model that has a name, and unless model.weights, taken as a whole, is of
 * another number. After the file and --set, before settings_finish. */
void run_data_take_classes(struct settings *settings);
/* Open what the settings name, for samples of the net's input. A set that is not named stays NULL. Where it is only
 * checked, labels out of range do not refuse a set: data_check tells of them. 0, or -EINVAL or -ENOMEM
 * with the problems; the caller closes what is open. */
int run_data_open(struct dataset *datasets[PHASE_COUNT], const struct settings *settings, const struct net *net,
                  bool is_check, struct problems *problems);
/* The same of the validation set alone; labels out of range do not refuse it where any is taken. */
int run_data_open_validation(struct dataset **dataset_out, const struct settings *settings, const struct net *net,
                             bool is_any_label_taken, struct problems *problems);
/* For each set its records, its shards, which files those are, and how its samples are stored. */
void run_data_print(const struct dataset *const datasets[PHASE_COUNT], FILE *out);
/* Say on stderr where an order of the training set leaves records of one class together. Reads some records. */
void run_data_warn(const struct dataset *dataset, const struct order_shape *shape, uint64_t seed);

#endif
