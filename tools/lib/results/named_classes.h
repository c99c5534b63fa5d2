/* Compares the class names of a data set with those of other sets and of weights, prints and saves them. */
#ifndef PIPETRAIN_NAMED_CLASSES_H
#define PIPETRAIN_NAMED_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "tools/lib/results/weights.h"

/* A class as it is printed: "3 daisy", or "3" if it has no name. Control characters of the name are escaped, and a long
 * name is cut. */
struct class_text { char text[128]; };
struct class_text class_text(const char *name, uint32_t class);
/* The same with the name in a list, where it may have none. */
struct class_text class_text_of(const struct class_names *names, uint32_t class);

/* Do two data sets name classes differently, or has one of them no names and another number of classes? If so, a text
 * for each is written for a message: the first names, or the number of classes. */
bool datasets_name_differently(const struct dataset *a, const struct dataset *b, char *a_out, char *b_out,
                               size_t text_size);
/* As datasets_name_differently, for the data sets of two patterns, of which only the folders' descriptions and lists of
 * names are read. A set without either equals any other. label_key: as for dataset_shards_names. */
bool shards_name_differently(const char *a, const char *b, const char *label_key, char *a_out, char *b_out,
                             size_t text_size);
/* Does a data set name classes differently from a network whose names are `text`, as in the metadata of weights and
 * checkpoints (NULL: no names)? If so, the first names of both are written. 1, 0, -EBADMSG if the text is not a list of
 * names, or -ENOMEM. */
int dataset_names_differ(const struct dataset *dataset, const char *text, char *data_out, char *network_out,
                         size_t text_size);
/* The number of classes that the text names, but the data set does not. */
uint32_t dataset_names_lost(const struct dataset *dataset, const char *text);
/* Write the data set's class names into the metadata of the weights; does nothing if either is NULL. Names with line
 * ends are left out. 0 or -ENOMEM. */
int named_classes_save(struct weights *weights, const struct dataset *dataset);

#endif
