/* What is known of a compressed shard from what was read of it: places to begin at, where damage breaks the
 * stream, and where it ends. It grows as reading first comes by, and any number of threads ask. */
#ifndef PIPETRAIN_PACKED_MAP_H
#define PIPETRAIN_PACKED_MAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/unpacker.h"

#define PACKED_NOWHERE UINT64_MAX

/* A place to begin at. */
struct packed_point {
    uint64_t in, out;           /* the next byte to be taken of the file, and given of the stream */
    uint64_t unit, unit_out;    /* where in the file the unit begins, and in the stream */
    const struct inflater *saved;       /* NULL: a unit begins here. Constant */
};

/* The stream goes up to `out`, one byte lies there that means nothing, and behind it the unit that begins
 * at `next` of the file, or nothing any more where that is PACKED_NOWHERE. */
struct packed_break {
    uint64_t out;
    uint64_t unit_out;          /* where in the stream the damaged unit begins */
    uint64_t in;                /* about where the file is damaged */
    uint64_t next;
    uint64_t foreign_bytes;     /* from foreign_from, behind the last unit, to the end of the file, which begin no
                                 * other; 0 where it is another damage */
    uint64_t foreign_from;
    const char *problem;
};

/* Points are sorted by both offsets, breaks by `out`. */
struct packed_map {
    pthread_mutex_t lock;
    struct packed_point *points;
    size_t point_count, point_room;
    struct inflater *states;    /* that points use, in order */
    size_t state_count, state_room;
    struct packed_break *breaks;
    size_t break_count;
    uint64_t end;               /* of the stream; PACKED_NOWHERE until it was reached */
};

/* Of a file of so many bytes. All memory but that for breaks is taken now: about 3 % of the file where
 * units do not tell where to begin, and no more than all maps together may have. 0 or -ENOMEM. */
int packed_map_init(struct packed_map *map, uint64_t file_bytes, bool has_states);
void packed_map_release(struct packed_map *map);
/* Host memory it has. */
size_t packed_map_bytes(const struct packed_map *map);

/* Reading has come to `point`, its `saved` to be copied where it is not NULL: kept where it is far enough
 * from the one before. */
void packed_map_offer(struct packed_map *map, const struct packed_point *point);
/* The last point at or before `out` of the stream. */
struct packed_point packed_map_find(struct packed_map *map, uint64_t out);
/* The first break at or behind `out`; false where none is known. */
bool packed_map_next_break(struct packed_map *map, uint64_t out, struct packed_break *break_out);
/* Damage was found, behind all that is known. Behind the last that a shard may have, the stream ends. 0 or
 * -ENOMEM. */
int packed_map_add_break(struct packed_map *map, const struct packed_break *found);
void packed_map_set_end(struct packed_map *map, uint64_t end);
uint64_t packed_map_end(struct packed_map *map);

#endif
