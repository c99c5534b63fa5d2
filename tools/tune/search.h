/* Which settings of the feed are worth a trial: a search by the model (feed_model.h). */
#ifndef PIPETRAIN_TUNE_SEARCH_H
#define PIPETRAIN_TUNE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/tune/feed_model.h"

#define SEARCH_FOUND_MAX 4u
#define SEARCH_DEPTH_MAX 32u    /* that is proposed */
/* Within this share of the best one, settings are as good as it. */
#define SEARCH_ALIKE 0.01

/* Where it searches. */
struct search_space {
    struct feed_setting now;            /* the configuration's; begins, and is kept where nothing is better */
    struct feed_setting usual;          /* the program's own choices, which are kept where they are as good */
    uint32_t readers_most, decoders_most;
    uint32_t threads_most;              /* of a tower; now.threads: not searched */
    size_t ring_batch_bytes, slot_bytes;        /* what another batch of depth takes, of all towers */
    size_t spare_bytes;                 /* that there are beside what `now` takes; SIZE_MAX: enough */
};

struct found {
    struct feed_setting setting;
    struct feed_prediction prediction;
};

struct search_result {
    struct found now;                   /* as it is */
    struct found found[SEARCH_FOUND_MAX];       /* others, the best first; the first is what the model proposes */
    uint32_t count;                     /* of found; 0: nothing is better by more than SEARCH_ALIKE, or would be with
                                         * shorter steps */
    double deepest;                     /* images/s of the proposed threads (or of `now`) at any depth */
    uint32_t predicted;                 /* settings that were looked at */
};

/* 0 or -ENOMEM. */
int search_feed(const struct feed_model *model, const struct search_space *space, struct search_result *result_out);
/* Bytes that a setting takes beside what space->now does; 0 where it takes less. */
size_t search_more_bytes(const struct search_space *space, const struct feed_setting *setting);
bool search_is_same(const struct feed_setting *a, const struct feed_setting *b);

#endif
