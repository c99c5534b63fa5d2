/* Points, breaks and the end of a compressed shard. Called by every thread that reads one. */
#include "loader/packed/packed_map.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Bytes of the file between two points, where units begin that often. */
#define POINT_SPACING ((uint64_t)16 << 10)
/* Between two for which a state is kept: 88 KB for 3 MiB. */
#define STATE_SPACING ((uint64_t)3 << 20)
/* States of all maps: those of 4 GiB of files. Shards opened when no more are left are read from the
 * beginning of a unit. */
#define STATES_BYTES_MAX ((size_t)128 << 20)
/* More than this costs more to follow than the records behind it are worth. */
#define BREAKS_MAX 4096u

static atomic_size_t states_reserved;

/* As many of the states wanted as are left for all maps. */
static size_t reserve_states(size_t wanted)
{
    const size_t most = STATES_BYTES_MAX / sizeof(struct inflater);
    size_t before = atomic_load(&states_reserved), given;
    do
        given = wanted < most - before ? wanted : most - before;
    while (!atomic_compare_exchange_weak(&states_reserved, &before, before + given));
    return given;
}

int packed_map_init(struct packed_map *map, uint64_t file_bytes, bool has_states)
{
    *map = (struct packed_map){
        .point_count = 1,
        .point_room = file_bytes / POINT_SPACING + 2,
        .state_room = has_states ? reserve_states(file_bytes / STATE_SPACING) : 0,
        .end = PACKED_NOWHERE,
    };
    pthread_mutex_init(&map->lock, NULL);
    map->points = calloc(map->point_room, sizeof(*map->points));
    map->states = map->state_room > 0 ? malloc(map->state_room * sizeof(*map->states)) : NULL;
    if (map->points != NULL && (map->states != NULL || map->state_room == 0))
        return 0;
    packed_map_release(map);
    return -ENOMEM;
}

void packed_map_release(struct packed_map *map)
{
    atomic_fetch_sub(&states_reserved, map->state_room);
    pthread_mutex_destroy(&map->lock);
    free(map->points);
    free(map->states);
    free(map->breaks);
}

size_t packed_map_bytes(const struct packed_map *map)
{
    return map->point_room * sizeof(*map->points) + map->state_room * sizeof(*map->states);
}

/* A point at every unit, and within long ones as often as states are there for. */
static bool is_wanted_locked(const struct packed_map *map, const struct packed_point *point)
{
    const uint64_t last = map->points[map->point_count - 1].in;
    const uint64_t spacing = point->saved != NULL ? STATE_SPACING : POINT_SPACING;
    return point->in >= last + spacing && map->point_count < map->point_room &&
           (point->saved == NULL || map->state_count < map->state_room);
}

void packed_map_offer(struct packed_map *map, const struct packed_point *point)
{
    pthread_mutex_lock(&map->lock);
    if (is_wanted_locked(map, point)) {
        struct packed_point kept = *point;
        if (point->saved != NULL) {
            struct inflater *const state = &map->states[map->state_count++];
            *state = *point->saved;
            kept.saved = state;
        }
        map->points[map->point_count++] = kept;
    }
    pthread_mutex_unlock(&map->lock);
}

struct packed_point packed_map_find(struct packed_map *map, uint64_t out)
{
    pthread_mutex_lock(&map->lock);
    size_t low = 0, high = map->point_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (map->points[middle].out <= out)
            low = middle;
        else
            high = middle;
    }
    const struct packed_point point = map->points[low];
    pthread_mutex_unlock(&map->lock);
    return point;
}

static bool next_break_locked(const struct packed_map *map, uint64_t out, struct packed_break *break_out)
{
    size_t low = 0, high = map->break_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (map->breaks[middle].out < out)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == map->break_count)
        return false;
    *break_out = map->breaks[low];
    return true;
}

bool packed_map_next_break(struct packed_map *map, uint64_t out, struct packed_break *break_out)
{
    pthread_mutex_lock(&map->lock);
    const bool is_there = next_break_locked(map, out, break_out);
    pthread_mutex_unlock(&map->lock);
    return is_there;
}

/* Another thread may have come by since it was looked for. */
static int add_break_locked(struct packed_map *map, const struct packed_break *found)
{
    if (map->break_count > 0 && map->breaks[map->break_count - 1].out >= found->out)
        return 0;
    struct packed_break *const grown = realloc(map->breaks, (map->break_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    map->breaks = grown;
    map->breaks[map->break_count++] = *found;
    if (map->break_count == BREAKS_MAX)
        map->breaks[BREAKS_MAX - 1].next = PACKED_NOWHERE;
    return 0;
}

int packed_map_add_break(struct packed_map *map, const struct packed_break *found)
{
    pthread_mutex_lock(&map->lock);
    const int rc = add_break_locked(map, found);
    pthread_mutex_unlock(&map->lock);
    return rc;
}

void packed_map_set_end(struct packed_map *map, uint64_t end)
{
    pthread_mutex_lock(&map->lock);
    map->end = end;
    pthread_mutex_unlock(&map->lock);
}

uint64_t packed_map_end(struct packed_map *map)
{
    pthread_mutex_lock(&map->lock);
    const uint64_t end = map->end;
    pthread_mutex_unlock(&map->lock);
    return end;
}
