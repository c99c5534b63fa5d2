/* Scans shards in parallel. The open shards are in a queue: a thread takes a shard, reads its next chunk, puts the
 * shard back for other threads, and verifies the chunk. */
#include "tools/shards/scan.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "stage/queue.h"
#include "stage/thread.h"
#include "tools/lib/text/progress.h"

/* A shard and the state of its reading. */
struct reading {
    struct scan_shard shard;
    struct shard_walk walk;     /* walk and hash: used only by the thread that took the shard */
    XXH3_state_t *hash;         /* state after the records read so far; NULL without hashes */
    atomic_size_t unfinished;   /* number of chunks that are not verified yet, plus 1 until the shard is read */
    uint64_t file_bytes, counted;       /* size of the file at the start; bytes already counted as progress */
    size_t room;                /* allocated elements of shard.damages; protected by scan.lock */
    bool is_done;               /* protected by scan.lock */
};

struct scan_thread {
    struct scan *scan;
    struct thread *handle;
    uint32_t number;
    struct chunk chunk;
};

struct scan {
    struct scan_options options;
    struct reading *readings;
    struct scan_thread *threads;
    struct queue *queue;        /* of struct reading; at most one open shard per thread */
    atomic_uint_fast32_t begun, unread;
    uint32_t returned;          /* number of shards returned by scan_next; main thread only */
    struct progress bytes_read; /* bytes of the files */
    pthread_mutex_t lock;
    pthread_cond_t progress;    /* signalled when a reading is done, or a thread has ended */
    uint32_t working;           /* working and result: protected by the lock */
    int result;
};

static void scan_fail(struct scan *scan, int rc)
{
    pthread_mutex_lock(&scan->lock);
    if (scan->result == 0)
        scan->result = rc;
    pthread_mutex_unlock(&scan->lock);
    queue_cancel(scan->queue);
}

static int grow_locked(struct reading *reading)
{
    struct scan_shard *const shard = &reading->shard;
    if (shard->damage_count < reading->room)
        return 0;
    const size_t room = reading->room > 0 ? 2 * reading->room : 4;
    struct scan_damage *const grown = realloc(shard->damages, room * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    shard->damages = grown;
    reading->room = room;
    return 0;
}

static int add_damage(struct scan *scan, struct reading *reading, uint64_t record, uint64_t offset,
                      const struct record_problem *problem)
{
    struct scan_shard *const shard = &reading->shard;
    pthread_mutex_lock(&scan->lock);
    const int rc = grow_locked(reading);
    if (rc == 0)
        shard->damages[shard->damage_count++] = (struct scan_damage){ record, offset, *problem };
    pthread_mutex_unlock(&scan->lock);
    return rc;
}

static int damage_compare(const void *a, const void *b)
{
    const uint64_t left = ((const struct scan_damage *)a)->offset, right = ((const struct scan_damage *)b)->offset;
    return (left > right) - (left < right);
}

static void finish(struct scan *scan, struct reading *reading)
{
    struct scan_shard *const shard = &reading->shard;
    shard_source_close(reading->walk.source);
    shard_walk_release(&reading->walk);
    reading->walk.source = NULL;
    if (shard->damage_count > 0)
        qsort(shard->damages, shard->damage_count, sizeof(*shard->damages), damage_compare);
    pthread_mutex_lock(&scan->lock);
    reading->is_done = true;
    pthread_cond_broadcast(&scan->progress);
    pthread_mutex_unlock(&scan->lock);
}

/* Decrement `unfinished`; at 0, the shard is done. */
static void release_share(struct scan *scan, struct reading *reading)
{
    if (atomic_fetch_sub(&reading->unfinished, 1) == 1)
        finish(scan, reading);
}

static void begin_another(struct scan *scan)
{
    const uint_fast32_t next = atomic_fetch_add(&scan->begun, 1);
    if (next < scan->options.count)
        (void)queue_put(scan->queue, &scan->readings[next]);
}

/* Count the bytes read as progress. */
static void note_progress(struct scan *scan, struct reading *reading, uint64_t bytes)
{
    const uint64_t now = bytes < reading->file_bytes ? bytes : reading->file_bytes;
    if (scan->options.what == NULL || now <= reading->counted)
        return;
    progress_add(&scan->bytes_read, now - reading->counted);
    reading->counted = now;
}

/* Hash the records of a chunk. Their order matters, so this is done by the thread that reads them. */
static void hash_records(struct reading *reading, const struct chunk *chunk)
{
    struct chunk_record record = { 0 };
    while (reading->hash != NULL && chunk_next(chunk, &record)) {
        const uint64_t bytes = record.payload_bytes;
        XXH3_64bits_update(reading->hash, &bytes, sizeof(bytes));
        XXH3_64bits_update(reading->hash, record.payload, record.payload_bytes);
    }
}

/* The shard has been read up to its end, or up to its last readable byte. */
static void end_reading(struct scan *scan, struct reading *reading)
{
    reading->shard.hash = reading->hash != NULL ? XXH3_64bits_digest(reading->hash) : 0;
    note_progress(scan, reading, reading->file_bytes);
    reading->shard.records = reading->walk.record;
    reading->shard.stream_bytes = reading->walk.offset;
    begin_another(scan);
    if (atomic_fetch_sub(&scan->unread, 1) == 1)
        queue_finish(scan->queue);
    release_share(scan, reading);
}

static int begin_hash(struct reading *reading)
{
    reading->hash = XXH3_createState();
    if (reading->hash == NULL)
        return -ENOMEM;
    XXH3_64bits_reset(reading->hash);
    return 0;
}

static int open_reading(const struct scan *scan, struct reading *reading)
{
    struct shard_source **const source = &reading->walk.source;
    reading->shard.error = *source != NULL ? 0 : shard_source_open(source, NULL, reading->shard.path);
    if (reading->shard.error == 0 && scan->options.hashes && reading->hash == NULL)
        reading->shard.error = begin_hash(reading);
    if (reading->shard.error < 0)
        return reading->shard.error;
    reading->walk.is_unwanted = scan->options.is_unwanted;
    reading->shard.is_plain = (*source)->ops->is_plain;
    reading->shard.bytes = (*source)->stamp.bytes;
    return 0;
}

static bool verify(struct scan_thread *thread, const struct reading *reading, const struct chunk_record *record,
                   struct record_problem *problem)
{
    const struct scan *const scan = thread->scan;
    const uint32_t shard = (uint32_t)(reading - scan->readings);
    return chunk_record_verify(record, reading->walk.source, problem) &&
           (scan->options.visit == NULL ||
            scan->options.visit(scan->options.arg, thread->number, shard, record, problem));
}

static int verify_chunk(struct scan_thread *thread, struct reading *reading)
{
    struct chunk_record record = { 0 };
    struct record_problem problem = { 0 };
    int rc = 0;
    while (rc == 0 && chunk_next(&thread->chunk, &record)) {
        if (!verify(thread, reading, &record, &problem))
            rc = add_damage(thread->scan, reading, record.record, record.offset, &problem);
    }
    return rc;
}

/* Read the next chunk, put the shard back into the queue, and verify the chunk. */
static int read_chunk(struct scan_thread *thread, struct reading *reading)
{
    struct scan *const scan = thread->scan;
    struct chunk *const chunk = &thread->chunk;
    int rc = open_reading(scan, reading) < 0 ? -ENODATA : shard_walk_next(&reading->walk, chunk);
    if (rc == -ENODATA) {
        end_reading(scan, reading);
        return 0;
    }
    if (reading->shard.is_plain)
        note_progress(scan, reading, reading->walk.offset);
    const bool is_damage = rc == -EBADMSG;
    if (is_damage)
        rc = add_damage(scan, reading, chunk->record, chunk->offset, &chunk->problem);
    if (rc < 0)
        return rc;
    if (!is_damage)
        hash_records(reading, chunk);
    atomic_fetch_add(&reading->unfinished, 1);
    (void)queue_put(scan->queue, reading);      /* fails only after queue_cancel */
    rc = is_damage ? 0 : verify_chunk(thread, reading);
    release_share(scan, reading);
    return rc;
}

static void scan_loop(void *arg)
{
    struct scan_thread *const thread = arg;
    struct scan *const scan = thread->scan;
    void *item;
    while (queue_get(scan->queue, &item) == 0) {
        const int rc = read_chunk(thread, item);
        if (rc < 0)
            scan_fail(scan, rc);
    }
    pthread_mutex_lock(&scan->lock);
    scan->working--;
    pthread_cond_broadcast(&scan->progress);
    pthread_mutex_unlock(&scan->lock);
}

static int start_thread(struct scan *scan, uint32_t number)
{
    struct scan_thread *const thread = &scan->threads[number];
    thread->scan = scan;
    thread->number = number;
    pthread_mutex_lock(&scan->lock);
    scan->working++;
    pthread_mutex_unlock(&scan->lock);
    const int rc = thread_start(&thread->handle, "scan", scan_loop, thread);
    if (rc < 0) {
        pthread_mutex_lock(&scan->lock);
        scan->working--;
        pthread_mutex_unlock(&scan->lock);
    }
    return rc;
}

static void begin_progress(struct scan *scan)
{
    uint64_t total = 0;
    struct stat status;
    for (uint32_t i = 0; i < scan->options.count && scan->options.what != NULL; i++) {
        const bool is_there = stat(scan->options.paths[i], &status) == 0;
        scan->readings[i].file_bytes = is_there ? (uint64_t)status.st_size : 0;
        total += scan->readings[i].file_bytes;
    }
    progress_begin_bytes(&scan->bytes_read, scan->options.what, total);
    progress_keep_to_terminal(&scan->bytes_read);
}

static void prepare(struct scan *scan)
{
    begin_progress(scan);
    for (uint32_t i = 0; i < scan->options.count; i++) {
        scan->readings[i].shard.path = scan->options.paths[i];
        atomic_init(&scan->readings[i].unfinished, 1);
    }
    atomic_init(&scan->unread, scan->options.count);
    for (uint32_t i = 0; i < scan->options.threads; i++)
        begin_another(scan);
    if (scan->options.count == 0)
        queue_finish(scan->queue);
}

static int start(struct scan *scan)
{
    scan->readings = calloc((size_t)scan->options.count + 1, sizeof(*scan->readings));
    scan->threads = calloc(scan->options.threads, sizeof(*scan->threads));
    const bool has_room = scan->readings != NULL && scan->threads != NULL;
    int rc = has_room ? queue_open(&scan->queue, scan->options.threads) : -ENOMEM;
    if (rc < 0)
        return rc;
    prepare(scan);
    for (uint32_t i = 0; i < scan->options.threads && rc == 0; i++)
        rc = start_thread(scan, i);
    return rc;
}

/* End the threads. Also to be called if the start has failed. */
static void scan_close(struct scan *scan)
{
    if (scan->queue != NULL)
        queue_cancel(scan->queue);
    for (uint32_t i = 0; i < scan->options.threads && scan->threads != NULL; i++) {
        thread_join(scan->threads[i].handle);
        chunk_release(&scan->threads[i].chunk);
    }
    progress_end(&scan->bytes_read);
    for (uint32_t i = 0; i < scan->options.count && scan->readings != NULL; i++) {
        shard_source_close(scan->readings[i].walk.source);
        shard_walk_release(&scan->readings[i].walk);
        XXH3_freeState(scan->readings[i].hash);
        free(scan->readings[i].shard.damages);
    }
    queue_close(scan->queue);
    pthread_cond_destroy(&scan->progress);
    pthread_mutex_destroy(&scan->lock);
    free(scan->readings);
    free(scan->threads);
}

/* Wait for the result of the next shard. NULL after the last one, or if the scan ended early. */
static const struct scan_shard *scan_next(struct scan *scan)
{
    if (scan->returned == scan->options.count)
        return NULL;
    const struct reading *const reading = &scan->readings[scan->returned];
    pthread_mutex_lock(&scan->lock);
    while (!reading->is_done && scan->working > 0)
        pthread_cond_wait(&scan->progress, &scan->lock);
    const bool is_done = reading->is_done;
    pthread_mutex_unlock(&scan->lock);
    scan->returned += is_done;
    return is_done ? &reading->shard : NULL;
}

void scan_hide_progress(struct scan *scan)
{
    progress_end(&scan->bytes_read);
}

int scan_shards(const struct scan_options *options,
                void (*add)(void *arg, struct scan *scan, const struct scan_shard *shard), void *arg)
{
    struct scan scan = { .options = *options };
    const struct scan_shard *shard;
    pthread_mutex_init(&scan.lock, NULL);
    pthread_cond_init(&scan.progress, NULL);
    int rc = start(&scan);
    while (rc == 0 && (shard = scan_next(&scan)) != NULL)
        add(arg, &scan, shard);
    rc = rc == 0 ? scan.result : rc;
    scan_close(&scan);
    return rc;
}
