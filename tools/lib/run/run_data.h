/* The data sets of a run: opened, checked against each other, printed, and for --check surveyed. From main's thread. */
#ifndef PIPETRAIN_RUN_DATA_H
#define PIPETRAIN_RUN_DATA_H

#include <stdbool.h>
#include <stdio.h>

#include "compute/net.h"
#include "formats/class_names.h"
#include "loader/dataset.h"
#include "loader/order.h"
#include "stage/schedule.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"

/* Complete the settings after the file and --set have been read. Options that the user did not set get the values of
 * the run in the run directory (run_name_follow), the data.label_offset with which the initial weights were trained,
 * and, for a named model with another number of classes, the data.classes that the data set's description
 * (dataset.json) contains. Then call settings_finish, and return the same codes. */
int run_data_finish_settings(struct settings *settings, struct problems *problems);
/* The number of classes according to the data set's description, plus data.label_offset; 0: unknown. */
uint64_t run_data_classes(const struct settings *settings);
/* With several ranks: index this rank's share of the shards, so that rank 0 finds index files (index_share.h). */
void run_data_share_indexing(const struct settings *settings);
/* Open the sets that the settings name, for samples of the net's input size; a set that is not named stays NULL.
 * is_check: accept labels out of range, because run_data_check reports them. `given`: what rank 0 has found in
 * each set, or NULL: this rank opens it for itself. Only rank 0 reads texts and labels to compare them. 0, or -EINVAL or -ENOMEM with the
 * problems; the caller closes the sets that are open. */
int run_data_open(struct dataset *datasets[PHASE_COUNT], const struct settings *settings, const struct net *net,
                  bool is_check, const struct dataset_start *const given[PHASE_COUNT], struct problems *problems);
/* Open only the validation set, for a network with trained weights, which fix its classes. Labels out of range are no
 * problem if any label is accepted. */
int run_data_open_validation(struct dataset **dataset_out, const struct settings *settings, const struct net *net,
                             bool is_any_label_taken, struct problems *problems);
/* Compare the texts of some records (image/class/text) with the names of their classes; `path` is the name of the list
 * in messages. If most texts name another class, that is a problem; if some do, a warning is printed. 0, -ENOMEM or
 * -ECANCELED. */
int run_data_check_texts(const struct dataset *dataset, const struct class_names *names, const char *path,
                         struct problems *problems);
/* The lines "data": records, shards, their names, and how samples are stored. */
void run_data_print(const struct dataset *const datasets[PHASE_COUNT], FILE *out);
/* Warn if the order of the training set leaves records of one class together. Reads some records. */
void run_data_warn(const struct dataset *dataset, const struct order_shape *shape, uint64_t seed);
/* Read the labels and decode the images of some records of each set, and print how many records each class has, the
 * range of pixels, and a better data.label_offset if there is one. 0, or an exit code after messages: labels are out of
 * range, a record cannot be read (unless data.on_corrupt = skip), or a signal asked to end. */
int run_data_check(const struct dataset *const datasets[PHASE_COUNT], FILE *out);

#endif
