/* The damaged records of a run, in the order of the data: the first ones with all that is known
 * of them, the others counted. */
#ifndef PIPETRAIN_DAMAGE_LIST_H
#define PIPETRAIN_DAMAGE_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "loader/record.h"
#include "stage/schedule.h"

#define DAMAGE_LISTED_MAX 256u
#define DAMAGE_TEXT_BYTES 1024u

struct damaged_record {
    enum pass pass;
    uint32_t shard;             /* of the data set */
    const char *path;           /* of the shard, lent by the data set */
    uint64_t record, offset;    /* in the shard; records in front of it that could be framed */
    uint64_t count;             /* records lost here: 1, or more where some are missing */
    struct record_problem problem;
};

/* A block of its own, released by free. */
struct damage_list {
    uint64_t unlisted;          /* records lost that found no room */
    size_t count;
    struct damaged_record records[DAMAGE_LISTED_MAX];   /* by pass, shard and offset */
};

/* Where the damaged records go that are met, besides the list: each once, one at a time, from any thread, which it
 * may not hold up for long. */
struct damage_sink {
    void (*add)(void *arg, const struct damaged_record *record);    /* NULL: nowhere */
    void *arg;
};

/* Where more are met than have room, those stay that come first in this order, so the list does not
 * depend on which thread met what when. */
void damage_list_add(struct damage_list *list, const struct damaged_record *record);
/* "PATH: record N at byte B: WHAT", the path escaped. */
void damaged_record_describe(const struct damaged_record *record, char *text, size_t text_size);

#endif
