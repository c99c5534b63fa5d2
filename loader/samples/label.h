/* A record's label: the ways to store one, and what number it is. */
#ifndef PIPETRAIN_LABEL_H
#define PIPETRAIN_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/class_names.h"
#include "formats/example.h"
#include "loader/samples/feature_text.h"

struct label_format;

/* One way to store labels. */
struct label_ops {
    const char *name;           /* for the plan: "integers" */
    /* The number stored. False where the feature holds no label of this kind. */
    bool (*read)(const struct label_format *format, const struct feature *feature, int64_t *stored_out);
};

struct label_format {
    uint32_t classes;
    int64_t offset;                     /* added to the number stored */
    const struct class_names *names;    /* lent; NULL: not known */
    bool is_any_taken;                  /* a number out of range is taken for 0, since somebody else looks at it */
    const struct label_ops *ops;        /* found */
};

/* Find from a first record's feature, which is there, how labels are stored: as one integer; one-hot, as `classes`
 * integers or floats, one of them 1 and all others 0; as the name of a class; as one byte. 0, or -EBADMSG with the
 * problem. `key` is the feature's. */
int label_find_format(struct label_format *format, const char *key, const struct feature *feature,
                      const struct payload_problem *problem);
/* The number stored, without the offset, whether it is in range or not. 0, or -EBADMSG with the problem. */
int label_read_stored(const struct label_format *format, const char *key, const struct feature *feature,
                      int64_t *stored_out, const struct payload_problem *problem);
/* The label in [0, classes). 0, or -EBADMSG with the problem. */
int label_read(const struct label_format *format, const char *key, const struct feature *feature,
               int32_t *label_out, const struct payload_problem *problem);

#endif
