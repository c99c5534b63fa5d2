/* The damaged images that a conversion finds while it writes: all are counted, and the first ones, in the order of
 * the samples, are printed at the end. The output does not depend on the number of threads. */
#ifndef PIPETRAIN_IMAGE_FLAWS_H
#define PIPETRAIN_IMAGE_FLAWS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tools/convert/shard_set.h"

#define FLAWS_LISTED 100u
#define FLAW_TEXT_BYTES 256u

enum flaw_kind {
    FLAW_IGNORED,               /* decoders report a flaw, but decode the image: it is stored */
    FLAW_UNDECODABLE,           /* the image cannot be decoded, so the data set cannot be written */
    /* the image is neither JPEG nor PNG; it may be raw pixels of unknown size, but counts as undecodable if other
     * images of the data set are JPEG or PNG */
    FLAW_UNKNOWN,
    FLAW_FLAT,                  /* all pixels have one colour: reported, and stored */
    FLAW_KIND_COUNT
};

struct image_flaw {
    const struct sample_source *source;
    uint64_t index;
    char text[FLAW_TEXT_BYTES]; /* printed after the name of the sample */
};

/* All members but is_undecodable are protected by the lock. */
struct image_flaws {
    pthread_mutex_t lock;
    struct { uint64_t count; size_t listed; struct image_flaw first[FLAWS_LISTED]; } kinds[FLAW_KIND_COUNT];
    /* For the flaws of a single source: 1 + the kind of the flaw of each sample, 0: it has none; owned. NULL: flaws are
     * not marked. */
    uint8_t *marks;
    atomic_bool is_undecodable; /* there is a flaw of kind FLAW_UNDECODABLE */
};

/* NULL if out of memory. */
struct image_flaws *image_flaws_open(void);
/* Accepts NULL. */
void image_flaws_close(struct image_flaws *flaws);
/* Add a flaw of a sample; `text` is printed after its name. Any thread. */
void image_flaws_add(struct image_flaws *flaws, enum flaw_kind kind, const struct sample_source *source, uint64_t index,
                     const char *text);
/* Whether the data set cannot be written, so the remaining images are only checked. Any thread. */
bool image_flaws_refuse(const struct image_flaws *flaws);
/* Print the flaws. has_encoded: the data set has JPEG or PNG images. may_skip: images were decoded only as a check.
 * 0, or -EBADMSG after stop_fail if an image cannot be decoded. */
int image_flaws_report(struct image_flaws *flaws, bool has_encoded, bool may_skip, struct stop *stop);

/* What is wrong with a sample whose flaw is marked; a general text if it is not among the listed flaws. */
const char *image_flaws_text(const struct image_flaws *flaws, uint64_t index);

/* The name of a sample for messages. */
void image_flaws_name(const struct sample_source *source, uint64_t index, char *name, size_t name_size);

#endif
