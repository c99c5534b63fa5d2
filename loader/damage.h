/* Damaged records of a run, each counted once, the first ones reported and listed; and records whose images were
 * decoded with a warning. */
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

/* A bit for every record of the data sets. */
struct record_marks {
    _Atomic uint8_t *bits[PHASE_COUNT];
};
size_t record_marks_bytes(const struct dataset *const datasets[PHASE_COUNT]);

struct damaged_record {
    enum phase phase;
    uint32_t shard;             /* index in the data set */
    const char *path;           /* of the shard, owned by the data set */
    uint64_t record, offset;    /* in the shard: how many records were found before it, and its first byte */
    uint64_t count;             /* records lost here: 1, or more if some are missing */
    struct record_problem problem;
};

/* The first damaged records in the order of the data. Allocated as one block; the owner frees it. */
struct damage_list {
    uint64_t unlisted;          /* lost records that did not fit */
    size_t count;
    struct damaged_record records[DAMAGE_LISTED_MAX];   /* sorted by phase, shard and offset */
};

/* Keeps the records that come first in that order, so the list does not depend on which thread found what when. */
void damage_list_add(struct damage_list *list, const struct damaged_record *record);
/* "PATH: record N at byte B: PROBLEM", the path escaped. */
void damaged_record_describe(const struct damaged_record *record, char *text, size_t text_size);

/* Receives every damaged record once, one at a time, from any thread. It should return soon. */
struct damage_sink {
    void (*add)(void *arg, const struct damaged_record *record);    /* may be NULL */
    void *arg;
};

/* A record that was found to be damaged, or whose image was decoded with a warning. Plain data: it may go to another
 * process of the run. */
struct found_problem {
    enum phase phase;
    bool is_warning;
    uint64_t id;
    struct record_problem problem;
};

/* Where another process counts and reports the problems of all processes: `pass` is called once for each problem that
 * this process finds, from any thread. It returns at once. */
struct problem_relay {
    void (*pass)(void *arg, const struct found_problem *found);         /* NULL: this process does */
    void *arg;
};

struct damage {
    const struct dataset *datasets[PHASE_COUNT];
    struct record_marks known;
    atomic_uint_fast64_t count;             /* records lost */
    pthread_mutex_t lock;                   /* for all fields below, and held while the sink is called */
    bool has_lock;
    bool is_silent;                         /* report no more */
    uint64_t reported;                      /* messages so far, including suppressed ones */
    struct damage_sink sink;
    struct damage_list *list;
    uint64_t *in_shards[PHASE_COUNT];       /* records lost in each shard */
    struct damaged_record last;             /* the one added last */
};

size_t damage_bytes(const struct dataset *const datasets[PHASE_COUNT]);
/* Records that were lost while the shards were indexed are added first. Data sets may be NULL. 0 or -ENOMEM. */
int damage_init(struct damage *damage, const struct dataset *const datasets[PHASE_COUNT],
                const struct damage_sink *sink);
/* Accepts a struct of zeros. */
void damage_release(struct damage *damage);

/* Record `id` of a phase is damaged. True if that is new. Any thread. */
bool damage_add(struct damage *damage, enum phase phase, uint64_t id, const struct record_problem *problem);
/* Report no more damaged records, because the message that ends the run comes next. Accepts a struct of zeros. Any
 * thread. */
void damage_silence(struct damage *damage);
/* Likewise if damage is what ends the run: writes the first damaged record, in the order of the data, the one found
 * last and the number of each shard, as far as there is room in DAMAGE_SUMMARY_BYTES. There has to be one. Any
 * thread. */
void damage_end(struct damage *damage, char *text, size_t text_size);
/* Records of the data sets, lost ones included. */
uint64_t damage_record_count(const struct damage *damage);
uint64_t damage_count(const struct damage *damage);
/* Hand the list over to the caller; NULL for a struct of zeros. No other thread may add records any more. */
struct damage_list *damage_take_list(struct damage *damage);

/* Records whose image the decoder read with a warning: each counted once, the first one reported. */
struct decode_warnings {
    const struct dataset *datasets[PHASE_COUNT];
    struct record_marks known;
    atomic_uint_fast64_t count;
};

/* Data sets may be NULL. 0 or -ENOMEM; call decode_warnings_release after either. */
int decode_warnings_init(struct decode_warnings *warnings, const struct dataset *const datasets[PHASE_COUNT]);
/* Accepts a struct of zeros. */
void decode_warnings_release(struct decode_warnings *warnings);
/* True if the record had no warning yet. Any thread. */
bool decode_warnings_add(struct decode_warnings *warnings, enum phase phase, uint64_t id,
                         const struct record_problem *warning);
uint64_t decode_warnings_count(const struct decode_warnings *warnings);

#endif
