/* Tables beside images, as data hubs have them in a folder of images: metadata.csv or metadata.jsonl with a column
 * file_name, relative to the folder of the table, and a column of labels; one for the whole folder, or one in the
 * folder of each split. */
#ifndef PIPETRAIN_METADATA_H
#define PIPETRAIN_METADATA_H

#include <stdbool.h>

#include "tools/convert/convert.h"

struct metadata {
    char *folder;               /* the folder that contains all images; owned */
    char *tables[CONVERT_SOURCES_MAX];  /* those of the training, validation and test set that exist; owned */
    size_t count;
};

/* Find the tables of a folder, or of the only folder in it. 0, also if there are none: then count is 0. A negative
 * errno after stop_fail: two tables for one set, no table for the training set, or a system error. Call
 * metadata_release in both cases. */
int metadata_find(struct metadata *metadata_out, const char *folder, struct stop *stop);
/* Accepts a struct of zeros. */
void metadata_release(struct metadata *metadata);

/* ---- their images (convert_csv.c) ---- */

struct csv_set;

/* Prepare the conversion of the images in the tables, as the converter of tables does, and report images that no table
 * lists. `metadata` is borrowed. 0; -ENODATA if the table of the training set has no column with the name of a label
 * and none is chosen; or another result of `prepare` of a converter. Call csv_set_close in all cases. */
int csv_set_open(struct csv_set **set_out, const struct metadata *metadata, const struct convert_options *options,
                 struct stop *stop, struct conversion *conversion);
/* Accepts NULL. */
void csv_set_close(struct csv_set *set);

#endif
