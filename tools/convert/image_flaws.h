/* The damaged images that a conversion finds while it writes: all of them are counted, and the first ones, in the order
 * of the samples, are printed at the end. What is printed does not depend on the number of threads. */
#ifndef PIPETRAIN_IMAGE_FLAWS_H
#define PIPETRAIN_IMAGE_FLAWS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tools/convert/shard_set.h"

#define FLAWS_LISTED 100u
#define FLAW_TEXT_BYTES 256u

enum flaw_kind {
    FLAW_IGNORED,               /* decoders report it and decode the image all the same: it is stored */
    FLAW_UNDECODABLE,           /* the set cannot be written */
    FLAW_UNKNOWN,               /* the image is neither JPEG nor PNG, as raw pixels of unknown size are; undecodable if
                                 * other images of the set are JPEG or PNG */
    FLAW_FLAT,                  /* it shows one colour, which is reported and stored */
    FLAW_KIND_COUNT
};

struct image_flaw {
    const struct sample_source *source;
    uint64_t index;
    char text[FLAW_TEXT_BYTES]; /* follows the name of the sample */
};

/* Under the lock, except is_undecodable. */
struct image_flaws {
    pthread_mutex_t lock;
    struct { uint64_t count; size_t listed; struct image_flaw first[FLAWS_LISTED]; } kinds[FLAW_KIND_COUNT];
    atomic_bool is_undecodable; /* one is */
};

/* NULL without memory. */
struct image_flaws *image_flaws_open(void);
/* Accepts NULL. */
void image_flaws_close(struct image_flaws *flaws);
/* Note a flaw of a sample, in a text that follows its name. Any thread. */
void image_flaws_add(struct image_flaws *flaws, enum flaw_kind kind, const struct sample_source *source, uint64_t index,
                     const char *text);
/* Whether the set cannot be written: then its images are only checked. Any thread. */
bool image_flaws_refuse(const struct image_flaws *flaws);
/* Print the flaws of a set with or without JPEG or PNG images. 0, or -EBADMSG after stop_fail if an image cannot be
 * decoded; `may_skip`: decoding was only a check. */
int image_flaws_report(struct image_flaws *flaws, bool has_encoded, bool may_skip, struct stop *stop);

/* The name of a sample for messages. */
void image_flaws_name(const struct sample_source *source, uint64_t index, char *name, size_t name_size);

#endif
