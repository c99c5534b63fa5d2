/* The payload of a record, as a source has it and as it is to be written. */
#ifndef PIPETRAIN_RECORD_MAKER_H
#define PIPETRAIN_RECORD_MAKER_H

#include "tools/convert/images/image_change.h"
#include "tools/convert/shard_set.h"
#include "tools/convert/writing/block.h"

/* What one thread has at hand. */
struct record_maker {
    struct stop *stop;
    void *scratch;              /* lent to sources */
    struct block example;
    struct image_changer *changer;      /* NULL where images stay as they are */
    bool is_silent;             /* images with flaws are told another time */
};

/* For records of `count` sources. 0, or -ENOMEM after stop_fail; record_maker_close in both cases. */
int record_maker_open(struct record_maker *maker, const struct sample_source *sources, size_t count,
                      const struct image_change *change, struct stop *stop);
/* Accepts a struct of zeros. */
void record_maker_close(struct record_maker *maker);
/* The payload of record `index`, which stays until the next one. 0, or a negative errno after stop_fail. In the thread
 * that opened the maker. */
int record_maker_payload(struct record_maker *maker, const struct sample_source *source, uint64_t index,
                         const uint8_t **payload_out, size_t *bytes_out);
/* Say what is wrong with the image of a record that is written as it is. */
void record_maker_tell(const struct record_maker *maker, const struct sample_source *source, uint64_t index,
                       const char *flaw);

#endif
