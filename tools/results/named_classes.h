/* What a data set or weights call their classes, wherever that is listed, and whether two of them mean the same. */
#ifndef PIPETRAIN_NAMED_CLASSES_H
#define PIPETRAIN_NAMED_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "tools/shards/label_names.h"

/* Both lent; the first that names anything counts. */
struct named_classes {
    const struct class_names *listed;
    const struct label_names *beside;   /* may be NULL */
};

/* The name of a class, "" where it has none. */
const char *named_classes_find(const struct named_classes *names, uint32_t class);
/* Does a class below `classes` have another name in the one than in the other? A class that one of them does not name
 * is no difference. */
bool named_classes_differ(const struct named_classes *a, const struct named_classes *b, uint32_t classes);
/* The first names of the list for a message, escaped: "cat, dog, owl, ..." */
void named_classes_tell(const struct named_classes *names, uint32_t classes, char *text_out, size_t text_size);
/* Do two data sets differ so? If they do, the first names of both are told. 1, 0 or -ENOMEM. */
int datasets_name_differently(const struct dataset *a, const struct dataset *b, char *a_out, char *b_out,
                              size_t text_size);
/* Do the classes of a data set have other names than those of a network, `text` as weights and saved states hold it
 * (NULL: they name none)? If they do, the first names of both are told. 1, 0, -EBADMSG when the text is no list of
 * names, or -ENOMEM. */
int dataset_names_differ(const struct dataset *dataset, const char *text, char *data_out, char *network_out,
                         size_t text_size);

#endif
