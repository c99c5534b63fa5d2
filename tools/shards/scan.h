/* All records of shards, read once and verified, by several threads: each has a shard to itself where there are
 * enough of them, and where there are fewer they take turns in reading pieces of one and verify theirs side by
 * side. What is found does not depend on how many threads there are. */
#ifndef PIPETRAIN_SCAN_H
#define PIPETRAIN_SCAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shards/shard_walk.h"

struct scan;

/* Called for every record whose checksums are right, from the thread `worker`, in no certain order. False, with a
 * problem, when the record is damaged all the same. */
typedef bool (*scan_visit)(void *arg, uint32_t worker, uint32_t shard, const struct piece_record *record,
                           struct record_problem *problem_out);

struct scan_options {
    char *const *paths;         /* of shards; lent until the scan is closed */
    uint32_t count;
    uint32_t workers;           /* >= 1 */
    const atomic_bool *is_unwanted;     /* becomes true when the scan is to end early */
    scan_visit visit;           /* may be NULL */
    void *arg;
    bool hashes;                /* find the hash over the records of each shard, too */
    const char *what;           /* is being done, for a line of progress where stderr is a terminal; NULL: none */
};

struct scan_damage {
    uint64_t record, offset;    /* in the shard; record counts those that could be framed */
    struct record_problem problem;
};

/* What was found out about a shard. */
struct scan_shard {
    const char *path;
    int error;                  /* 0, or the negative errno with which it could not be opened */
    bool is_plain;              /* the stream is the file */
    uint64_t bytes;             /* of the file */
    uint64_t stream_bytes;      /* of the records in it, which differ where it is compressed */
    uint64_t records;           /* that could be framed */
    uint64_t hash;              /* xxh3 of every payload behind its length in 8 bytes, where hashes are wanted */
    struct scan_damage *damages;        /* by offset */
    size_t damage_count;
};

/* Begin. 0 or a negative errno. */
int scan_open(struct scan **scan_out, const struct scan_options *options);
/* The next shard in the order of the paths, waiting until all its records were looked at; it stays until the scan is
 * closed. NULL behind the last one, or when the scan ended early. Main only. */
const struct scan_shard *scan_next(struct scan *scan);
/* Clear the line of progress away, in front of other lines. Main only. */
void scan_hide_progress(struct scan *scan);
/* Why scan_next gave NULL: 0, -ECANCELED or -ENOMEM. */
int scan_result(const struct scan *scan);
/* Ends the threads. Accepts NULL. */
void scan_close(struct scan *scan);

#endif
