/* Reads and verifies all records of shards with several threads. With enough shards, each thread reads its own;
 * otherwise threads read chunks of the same shard in turn and verify them in parallel. The result does not depend on
 * the number of threads. */
#ifndef PIPETRAIN_SCAN_H
#define PIPETRAIN_SCAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shards/shard_walk.h"

struct scan;

/* Called for every record with correct checksums, in any order; `thread` is the number of the calling thread. False,
 * with a problem, if the record is damaged nevertheless. */
typedef bool (*scan_visit)(void *arg, uint32_t thread, uint32_t shard, const struct chunk_record *record,
                           struct record_problem *problem_out);

struct scan_options {
    char *const *paths;         /* paths of the shards */
    uint32_t count;
    uint32_t threads;           /* >= 1 */
    const atomic_bool *is_unwanted;     /* true: stop the scan */
    scan_visit visit;           /* may be NULL */
    void *arg;
    bool hashes;                /* also compute the hash of the records of each shard */
    /* verb for the progress line, which is shown if stderr is a terminal; NULL: no progress line */
    const char *what;
};

struct scan_damage {
    /* record: number of the record, counting those with a valid frame; offset: in the shard */
    uint64_t record, offset;
    struct record_problem problem;
};

/* The result of scanning a shard. */
struct scan_shard {
    const char *path;
    int error;                  /* 0, or the negative errno of opening the shard */
    bool is_plain;              /* not compressed */
    uint64_t bytes;             /* size of the file */
    uint64_t stream_bytes;      /* size after decompression */
    uint64_t records;           /* number of records with a valid frame */
    /* if scan_options.hashes: XXH3 of the payloads, each preceded by its length in 8 bytes */
    uint64_t hash;
    struct scan_damage *damages;        /* sorted by offset */
    size_t damage_count;
};

/* Clear the progress line before other output. Main thread only. */
void scan_hide_progress(struct scan *scan);
/* Scan all shards. Calls `add` for each, in the calling thread and in the order of the paths; if the scan ends
 * early, only for some. 0, -ECANCELED, -ENOMEM, or the negative errno of a thread that cannot be started. */
int scan_shards(const struct scan_options *options,
                void (*add)(void *arg, struct scan *scan, const struct scan_shard *shard), void *arg);

#endif
