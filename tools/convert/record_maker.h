/* Makes the payloads of records from the samples of a source; changes or checks their images if requested. */
#ifndef PIPETRAIN_RECORD_MAKER_H
#define PIPETRAIN_RECORD_MAKER_H

#include "tools/convert/block.h"
#include "tools/convert/image_change.h"
#include "tools/convert/image_flaws.h"
#include "tools/convert/shard_set.h"

/* Used by one thread only. */
struct record_maker {
    struct stop *stop;
    void *scratch;              /* memory for sources */
    struct block example;
    struct image_changer *changer;      /* NULL: images are neither changed nor checked */
    struct image_flaws *flaws;  /* damaged images are added here; may be NULL */
};

/* Open a maker for the records of `count` sources. 0, or -ENOMEM after stop_fail; call record_maker_close in both
 * cases. */
int record_maker_open(struct record_maker *maker, const struct sample_source *sources, size_t count,
                      const struct image_change *change, struct stop *stop);
/* Accepts a struct of zeros. */
void record_maker_close(struct record_maker *maker);
/* Make the payload of record `index`, valid until the next call. 0; 1 if the image cannot be decoded, which was
 * added to the flaws; or a negative errno after stop_fail. To be called by the thread that opened the maker. */
int record_maker_payload(struct record_maker *maker, const struct sample_source *source, uint64_t index,
                         const uint8_t **payload_out, size_t *bytes_out);
/* The pixels of the last record's image; is_known is false if it was not decoded. */
struct pixel_look record_maker_look(const struct record_maker *maker);

#endif
