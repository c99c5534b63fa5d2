/* The weights of classes in the training loss (train.class_weights): read from a file, or computed from the training
 * set so that all classes have equal sums of weights. Main thread only. */
#ifndef PIPETRAIN_CLASS_WEIGHTS_H
#define PIPETRAIN_CLASS_WEIGHTS_H

#include <stdint.h>
#include <stdio.h>

#include "loader/dataset.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

/* Set plan->class_weights, which the caller frees, with their exponent, and the hash of what was read: NULL without
 * train.class_weights, else a weight for each class of the network, >= 0, of which one is above 0. `dataset` is the
 * training set (NULL: there is none). auto: n / (K * n_c) for a class with n_c of the n records whose labels can be
 * read, where K classes have records (scikit-learn's "balanced"); 1 for a class without records. It reads every record,
 * with the plan's number of decoder threads; a file with a weight of 0 is read with all records, too, because one of
 * them has to train. 0; or -EINVAL with problems, -ENOMEM, -EAGAIN or -ECANCELED. */
int class_weights_find(struct run_plan *plan, const struct settings *settings, const struct net *net,
                       const struct dataset *dataset, struct problems *problems);
/* The lines of a run's start: the weights, or of many classes the smallest and the largest. Nothing without weights.
 * `dataset` is that of class_weights_find. */
void class_weights_print(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                         const struct dataset *dataset, FILE *out);

/* The parts, as pure functions. */

/* Divide weights by a power of 2, so that the largest one is at least 0.5 and below 1: only their quotients count, and
 * the gradients of fp16 neither overflow with weights of thousands nor vanish with those of a millionth. In fp32 the
 * results keep their bits. Returns the exponent of the power. */
int class_weights_scale(float *weights, uint32_t classes);
/* The weights of auto from the labels of all records (loader/label_table.h). 0 or -ENOMEM. */
int class_weights_balance(const int32_t *labels, uint64_t count, uint32_t classes, float *weights_out);
/* Read a file's text, of which a line is "NAME NUMBER": the name or the number of a class, then its weight. `names` may
 * be empty; where one of them is a number, only names are read. Classes that the text does not name weigh 1; it has to
 * name one. A byte order mark is skipped. 0, -ENOMEM, or -EINVAL with a problem for each wrong line. */
int class_weights_read(float *weights_out, uint32_t classes, const struct class_names *names, const char *text,
                       size_t bytes, const char *path, struct problems *problems);

#endif
