/* libpipetrain-feed: the input pipeline of pipetrain for other programs. It reads TFRecord shards, shuffles, decodes
 * and augments images with threads of its own, and hands out batches in an order that no number of threads or ranks
 * changes: sample i of step s of epoch e is a function of the data set, the options and the seed only.
 *
 *     open -> take, give_back, take, give_back ... -> close -> free
 *
 * Memory of a batch is lent: it belongs to the caller from take to give_back. `depth` batches exist, so a caller that
 * keeps some has fewer that are prepared meanwhile.
 *
 * Threads: every function may be called by any thread at any time between open and free, unless it says otherwise;
 * several threads may take at once. Signals: only pipetrain_feed_interrupt and pipetrain_feed_resume may be called by a
 * signal handler; the library sets no handler, and its threads block all signals. Processes: after a fork the child has
 * none of the threads, so every function returns PIPETRAIN_FEED_FORKED there; open another feed in the child. There is
 * no global state but a limit of memory for decoding very large images, which all feeds of a process share. Nothing is
 * printed: see pipetrain_feed_messages. */
#ifndef PIPETRAIN_FEED_LIBRARY_H
#define PIPETRAIN_FEED_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* The result of every function that can fail. */
enum pipetrain_feed_result {
    PIPETRAIN_FEED_OK = 0,
    PIPETRAIN_FEED_END = 1,             /* there are no more batches, or entries of a list */
    PIPETRAIN_FEED_TIME = 2,            /* the limit has passed and no batch is ready: take again */
    PIPETRAIN_FEED_LENT = 3,            /* all batches are lent: give one back before the next take */
    PIPETRAIN_FEED_INTERRUPTED = 4,     /* by pipetrain_feed_interrupt */
    PIPETRAIN_FEED_CLOSED = 5,
    PIPETRAIN_FEED_FORKED = 6,          /* the feed was opened by another process */
    PIPETRAIN_FEED_HANDLE = 7,          /* no batch with this handle is lent */
    PIPETRAIN_FEED_OPTION = 8,          /* an option is wrong, or options contradict each other or the data set */
    PIPETRAIN_FEED_DATA = 9,            /* shards are missing, unreadable, or damaged beyond data.max_corrupt */
    PIPETRAIN_FEED_MEMORY = 10,         /* memory, threads or open files are exhausted; or an image needs too much */
    PIPETRAIN_FEED_STATE = 11,          /* the bytes are no state, or one of another data set or order */
    PIPETRAIN_FEED_INTERNAL = 12        /* an error of this library */
};
/* "END" for PIPETRAIN_FEED_END; "?" for other numbers. Any process. */
const char *pipetrain_feed_result_name(int result);
/* The version of the library: "1.2.3". Any process. */
const char *pipetrain_feed_version(void);

/* Why a function failed. Functions write it if they return a result from OPTION on, and leave it alone otherwise; the
 * pointer may be NULL. */
#define PIPETRAIN_FEED_NO_RECORD UINT64_MAX
struct pipetrain_feed_problem {
    uint64_t record;            /* number of the damaged record in its file, from 0, or PIPETRAIN_FEED_NO_RECORD */
    char file[4096];            /* path of the damaged file; "" if the problem is not with one record */
    char message[8192];         /* UTF-8, control characters escaped; a line for each problem, the last one without a
                                 * newline */
};

/* Zeros are defaults where the comment says so. Set all other bytes to 0. */
struct pipetrain_feed_options {
    size_t struct_bytes;        /* sizeof(struct pipetrain_feed_options) */
    const char *shards;         /* files, directories, globs and DIRECTORY:SPLIT, separated by commas; of a
                                 * directory with several splits the training shards, in evaluation those of
                                 * validation */
    /* NULL, or more options as text: lines "SECTION.KEY = VALUE" with the names, ranges and meanings of pipetrain's
     * configuration, sections data, input and augment (pipetrain_feed_key lists them). */
    const char *settings;
    uint32_t height, width;     /* of the images that are handed out, in pixels */
    uint32_t channels;          /* 0: 3; 1: grey; more than 3 only of images that are stored as numbers */
    /* Samples of a step, over all ranks together, so that the order does not depend on `world`. Ranks get shares of
     * batch / world samples, the first ones one more if that is no whole number (one pair more where samples are
     * mixed); in the last step of an epoch a share may be empty. At least a sample, or a pair, for each rank. */
    uint32_t batch;
    uint32_t rank, world;       /* this is feed `rank` < world of that many; world 0: 1 */
    uint32_t depth;             /* batches that exist, lent ones included; 0: input.prefetch_depth (4) */
    uint32_t threads;           /* threads that decode; 0: input.decode_threads, or else as many as there are cores */
    uint64_t epochs;            /* 0: without end */
    uint64_t seed;              /* of order and augmentation */
    bool is_evaluation;         /* stored order, nothing random, the crop of augment.evaluation */
    bool is_raw;                /* hand out the bytes of records instead of images; height, width and channels are
                                 * ignored (struct pipetrain_feed_record) */
    bool drop_last;             /* leave out the last step of an epoch if it has fewer than `batch` samples; not in
                                 * evaluation */
    /* NULL, or called to allocate the memory of a batch, aligned to at least 64 bytes, and to free it: for memory that
     * is pinned. `allocate` returns NULL without memory; it is called by open, seek and seek_to. `release` may be
     * called by the thread that calls close, free, give_back, seek or seek_to. Neither may call the feed. */
    void *(*allocate)(void *memory_arg, size_t bytes);
    void (*release)(void *memory_arg, void *memory, size_t bytes);
    void *memory_arg;
    /* NULL, or a flag that another thread or a signal handler sets to end pipetrain_feed_open early, which then returns
     * PIPETRAIN_FEED_INTERRUPTED; not used after that. */
    const volatile bool *is_unwanted;
};

struct pipetrain_feed;

/* Open the shards, and start the threads at the first step. Blocks: reads the shards' indexes, which takes long for
 * a large set that was never opened. OK with *feed_out, which the caller closes and frees; INTERRUPTED, OPTION, DATA,
 * MEMORY. */
int pipetrain_feed_open(struct pipetrain_feed **feed_out, const struct pipetrain_feed_options *options,
                        struct pipetrain_feed_problem *problem);

/* ---- batches ---- */

/* How sample k of a batch is mixed with its partner, by mixup or CutMix; partners are samples 2k and 2k + 1, as they
 * were before mixing. The images are handed out unmixed, so that a device can mix them. If the box is not empty
 * (CutMix), the pixels inside it are the partner's; if it is empty (mixup), every pixel is share * own + (1 - share) *
 * partner's. The loss is share * loss(own label) + (1 - share) * loss(partner's label) in both cases. Share 1: not
 * mixed. A last sample without a partner has share 1. */
struct pipetrain_feed_mix {
    float share;
    uint32_t top, left, bottom, right;  /* the box: rows top <= y < bottom, columns left <= x < right */
};

/* A record as stored: the whole payload (of most sets a tf.train.Example), whose checksums were right. */
struct pipetrain_feed_record {
    const uint8_t *bytes;       /* NULL: the record is damaged, and left out of an evaluation */
    size_t count;
};

#define PIPETRAIN_FEED_NO_LABEL (-1)    /* the sample is none: its record is damaged, and left out of an evaluation */

struct pipetrain_feed_batch {
    size_t struct_bytes;        /* set by the caller: sizeof(struct pipetrain_feed_batch) */
    uint64_t handle;            /* for give_back; never 0 */
    uint32_t count;             /* samples of this rank, may be 0 in the last step of an epoch */
    uint32_t global_count;      /* samples of the step over all ranks, at least 1 */
    uint64_t first_position;    /* position of the first sample in the epoch */
    uint64_t epoch, step_of_epoch;      /* from 0 */
    uint64_t step;              /* from 0, counted over all epochs */
    bool is_last_of_epoch;
    uint8_t *images;            /* [count][height][width][channels]; NULL for raw records */
    int64_t *labels;            /* [count], data.label_offset added; NULL for raw records */
    uint64_t *ids;              /* [count]: number of the record in the data set, in the order in which it is stored */
    const struct pipetrain_feed_mix *mixes;         /* [count]; NULL: augment.mixup and cutmix are 0, or evaluation */
    const struct pipetrain_feed_record *records;    /* [count]; NULL unless raw */
};

#define PIPETRAIN_FEED_NO_LIMIT UINT64_MAX
/* Take the next batch. Waits until it is ready, at most limit_ns nanoseconds. The memory of images, labels and ids may
 * be written by the caller until the batch is given back. OK with *batch_out; END, TIME, LENT, INTERRUPTED, CLOSED,
 * FORKED; DATA, MEMORY, INTERNAL, after which every take fails in the same way until seek or seek_to. LENT instead of
 * TIME: all `depth` batches are lent, so that none can be prepared; a take with a long limit waits at most a second for
 * one of them. */
int pipetrain_feed_take(struct pipetrain_feed *feed, uint64_t limit_ns, struct pipetrain_feed_batch *batch_out,
                        struct pipetrain_feed_problem *problem);
/* Give a batch back, whose memory is not to be used from now on. Also after close, after free and after a seek. Does
 * not wait. OK, HANDLE, FORKED. */
int pipetrain_feed_give_back(struct pipetrain_feed *feed, uint64_t handle);

/* From now on every take returns INTERRUPTED, also those that wait, these within 0.1 s, until resume. May be called by
 * a signal handler, as long as the feed is not freed. */
void pipetrain_feed_interrupt(struct pipetrain_feed *feed);
void pipetrain_feed_resume(struct pipetrain_feed *feed);

/* ---- position ---- */

/* The position of the next batch to be taken. OK, CLOSED, FORKED. */
int pipetrain_feed_position(struct pipetrain_feed *feed, uint64_t *epoch_out, uint64_t *step_of_epoch_out);
/* Write the state before step `step_of_epoch` of `epoch`, for pipetrain_feed_seek of a feed of the same data set, order
 * and batch, with any world, rank, threads and depth. After the last step of an epoch step_of_epoch may be its number
 * of steps. The state is a text of at most PIPETRAIN_FEED_STATE_BYTES with *bytes_out bytes, not terminated. OK, OPTION
 * (no such step), CLOSED, FORKED. */
#define PIPETRAIN_FEED_STATE_BYTES 2048
int pipetrain_feed_state(struct pipetrain_feed *feed, uint64_t epoch, uint64_t step_of_epoch,
                         char state_out[PIPETRAIN_FEED_STATE_BYTES], size_t *bytes_out,
                         struct pipetrain_feed_problem *problem);
/* Go to the position of a state. Takes that wait continue there; batches that are lent stay valid. The threads end and
 * start again, the shards stay open. OK, CLOSED, FORKED; STATE, after which nothing has changed; DATA, MEMORY. */
int pipetrain_feed_seek(struct pipetrain_feed *feed, const char *state, size_t bytes,
                        struct pipetrain_feed_problem *problem);
/* The same with a position. OPTION: there is no such step. */
int pipetrain_feed_seek_to(struct pipetrain_feed *feed, uint64_t epoch, uint64_t step_of_epoch,
                           struct pipetrain_feed_problem *problem);

/* ---- facts ---- */

/* What is fixed when the feed is open. */
struct pipetrain_feed_info {
    size_t struct_bytes;        /* set by the caller */
    uint64_t records;           /* of the data set, of all ranks */
    uint64_t steps_per_epoch;   /* the same for all ranks */
    uint64_t epochs;            /* as in the options; 0: without end */
    uint64_t epoch_bytes;       /* about the bytes of shards that this rank reads for an epoch, unless they are kept in
                                 * memory; with data.lanes only its own */
    uint64_t fingerprint;       /* of the records: another for other records or another order of shards */
    uint64_t seed;
    uint32_t classes;           /* that the set describes, or data.classes; 0: unknown */
    uint32_t named_classes;     /* that have a name (pipetrain_feed_class_name) */
    uint32_t batch, rank, world;
    uint32_t count_max;         /* the largest count of a batch of this rank */
    uint32_t depth, threads, read_threads;
    uint32_t height, width, channels;   /* 0 for raw records */
    uint32_t shards;
    uint64_t batch_bytes;       /* of the memory of each of the `depth` batches */
};
/* OK, CLOSED, FORKED. */
int pipetrain_feed_info(struct pipetrain_feed *feed, struct pipetrain_feed_info *info_out);
/* Write the name of a class, terminated and truncated to fit. OK, END (no such class, or no names), CLOSED, FORKED. */
int pipetrain_feed_class_name(struct pipetrain_feed *feed, uint32_t class_number, char *name_out, size_t name_bytes);
/* Count the records of each class: counts[i] of class i < class_count; *others_out (may be NULL) is the number of other
 * records, damaged ones included. Blocks: reads every record of the set once, with the feed's number of threads. close
 * ends it. OK, CLOSED, FORKED, MEMORY; OPTION: raw records have no labels. */
int pipetrain_feed_class_counts(struct pipetrain_feed *feed, uint64_t *counts, uint32_t class_count,
                                uint64_t *others_out, struct pipetrain_feed_problem *problem);

/* What happened since the feed was opened. */
struct pipetrain_feed_stats {
    size_t struct_bytes;        /* set by the caller */
    uint64_t open_ns;           /* time since pipetrain_feed_open */
    uint64_t batches, samples;  /* taken */
    uint64_t waited_ns;         /* for batches in takes, summed over threads */
    uint64_t read_bytes;        /* of shards */
    uint64_t damaged_records;   /* left out (data.on_corrupt = skip), each counted once between two seeks */
    uint64_t decoder_warnings;  /* images decoded although the decoder warned */
    double read_busy, decode_busy;      /* share of their time in which readers and decoders worked, 0 to 1, since the
                                         * first take after open or the last seek; 0 before */
    uint32_t ready, lent;       /* batches that wait for a take, and that are lent, now */
    /* One line: what limits the caller's speed, and which option to change; "" before there were enough batches. */
    char limit[512];
};
/* OK, CLOSED, FORKED. */
int pipetrain_feed_stats(struct pipetrain_feed *feed, struct pipetrain_feed_stats *stats_out);

/* Describe damaged record `index` of those that were left out, in the order in which they were found; the first 256 are
 * kept. OK, END, CLOSED, FORKED. */
int pipetrain_feed_damaged(struct pipetrain_feed *feed, uint32_t index, struct pipetrain_feed_problem *damage_out);
/* Take messages that a program would have printed, such as warnings: whole lines, each with a newline, terminated, as
 * many as fit into `bytes`; call again until the text is empty. At most 64 KiB are kept until they are taken; of
 * further ones the last line says how many were dropped. OK, FORKED. */
int pipetrain_feed_messages(struct pipetrain_feed *feed, char *text_out, size_t bytes);

/* A key of pipetrain_feed_options.settings. */
struct pipetrain_feed_key {
    size_t struct_bytes;        /* set by the caller */
    char name[64];              /* "augment.crop" */
    char type[16];              /* "string", "name", "integer", "number", "numbers", "duration", "size", "yes/no",
                                 * "choice" */
    char initial[256];          /* the default, as text */
    char range[256];            /* the allowed values: "1 .. 1024", "full, block, none"; "" for any */
    char help[256];             /* one line */
};
/* Describe key `index`, from 0. OK, END. Any process. */
int pipetrain_feed_key(uint32_t index, struct pipetrain_feed_key *key_out);

/* ---- end ---- */

/* End the threads and close the shards. Takes that wait, and all functions from now on, return CLOSED, but give_back,
 * messages, close and free. Batches that are lent stay valid. Blocks until the threads have finished their current
 * record. May be called again, and by several threads. OK, FORKED. */
int pipetrain_feed_close(struct pipetrain_feed *feed);
/* Close, and free the feed: now, or when other threads have left its functions and the last lent batch was given back.
 * The caller may only give back lent batches afterwards. Does nothing with NULL, nor in a child after a fork. */
void pipetrain_feed_free(struct pipetrain_feed *feed);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
