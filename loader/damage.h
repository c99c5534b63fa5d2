/* The damaged records of a run, each counted once, of which the first ones are reported and listed; and records whose
 * images were decoded with a warning. */
#ifndef PIPETRAIN_DAMAGE_H
#define PIPETRAIN_DAMAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "loader/record.h"
#include "stage/schedule.h"

#define DAMAGE_LISTED_MAX 256u
#define DAMAGE_TEXT_BYTES 1024u
#define DAMAGE_SUMMARY_BYTES 3072u

/* One bit for every record of the data sets. */
struct record_marks {
    _Atomic uint8_t *bits[PHASE_COUNT];
};
size_t record_marks_bytes(const struct dataset *const datasets[PHASE_COUNT]);

struct damaged_record {
    enum phase phase;
    uint32_t shard;             /* index in the data set */
    const char *path;           /* path of the shard, owned by the data set */
    uint64_t record, offset;    /* position in the shard: number of records found before it, and offset of its first
                                 * byte */
    uint64_t count;             /* lost records: 1, or more if records are missing */
    struct record_problem problem;
};

/* The first damaged records in the order of the data set. One allocation; the owner frees it. */
struct damage_list {
    uint64_t unlisted;          /* lost records that are not in the list */
    size_t count;
    struct damaged_record records[DAMAGE_LISTED_MAX];   /* sorted by phase, shard and offset */
};

/* Add a record. The list keeps those that come first in its order, so it does not depend on the timing of threads. */
void damage_list_add(struct damage_list *list, const struct damaged_record *record);
/* Describe a record: "PATH: record N at byte B: PROBLEM", with the path escaped. */
void damaged_record_describe(const struct damaged_record *record, char *text, size_t text_size);

/* Receives every damaged record once; calls come one at a time, from any thread. `add` should return quickly. */
struct damage_sink {
    void (*add)(void *arg, const struct damaged_record *record);    /* may be NULL */
    void *arg;
};

/* A record that was found to be damaged, or whose image was decoded with a warning. Plain data that may be sent to
 * another process of the run. */
struct found_problem {
    enum phase phase;
    bool is_warning;
    uint64_t id;
    struct record_problem problem;
};

/* Passes problems to another process, which counts and reports the problems of all processes. `pass` is called once for
 * each problem that this process finds, from any thread, and returns at once. */
struct problem_relay {
    void (*pass)(void *arg, const struct found_problem *found);         /* NULL: this process counts and reports */
    void *arg;
};

struct damage {
    const struct dataset *datasets[PHASE_COUNT];
    struct record_marks known;
    atomic_uint_fast64_t count;             /* records lost */
    pthread_mutex_t lock;                   /* protects all fields below; held while the sink is called */
    bool has_lock;
    bool is_silent;                         /* report no further records */
    uint64_t reported;                      /* reports so far, including suppressed ones */
    struct damage_sink sink;
    struct damage_list *list;
    uint64_t *in_shards[PHASE_COUNT];       /* lost records in each shard */
    struct damaged_record last;             /* the record added last */
};

size_t damage_bytes(const struct dataset *const datasets[PHASE_COUNT]);
/* Records that were lost while the shards were indexed are added at once. Data sets may be NULL. 0 or -ENOMEM. */
int damage_init(struct damage *damage, const struct dataset *const datasets[PHASE_COUNT],
                const struct damage_sink *sink);
/* Accepts a struct of zeros. */
void damage_release(struct damage *damage);

/* Add record `id` of a phase. True if it was not yet known to be damaged. Any thread. */
bool damage_add(struct damage *damage, enum phase phase, uint64_t id, const struct record_problem *problem);
/* Stop reporting damaged records, because the message that ends the run follows. Accepts a struct of zeros. Any
 * thread. */
void damage_silence(struct damage *damage);
/* As damage_silence, if damage ends the run: also write the first damaged record in the order of the data, the record
 * that was found last, and the number of damaged records of each shard, up to DAMAGE_SUMMARY_BYTES. At least one record
 * must be damaged. Any thread. */
void damage_end(struct damage *damage, char *text, size_t text_size);
/* The number of records in the data sets, including lost ones. */
uint64_t damage_record_count(const struct damage *damage);
uint64_t damage_count(const struct damage *damage);
/* Transfer the list to the caller; NULL for a struct of zeros. No other thread may add records afterwards. */
struct damage_list *damage_take_list(struct damage *damage);

/* Records whose image was decoded with a warning: each is counted once, and the first one is reported. */
struct decode_warnings {
    const struct dataset *datasets[PHASE_COUNT];
    struct record_marks known;
    atomic_uint_fast64_t count;
};

/* Data sets may be NULL. 0 or -ENOMEM; decode_warnings_release must be called in both cases. */
int decode_warnings_init(struct decode_warnings *warnings, const struct dataset *const datasets[PHASE_COUNT]);
/* Accepts a struct of zeros. */
void decode_warnings_release(struct decode_warnings *warnings);
/* Add a record with a warning. True if it had none before. Any thread. */
bool decode_warnings_add(struct decode_warnings *warnings, enum phase phase, uint64_t id,
                         const struct record_problem *warning);
uint64_t decode_warnings_count(const struct decode_warnings *warnings);

#endif
