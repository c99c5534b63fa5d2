/* Saving states beside the training. */
#include "tools/checkpoint/saver.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "stage/thread.h"

struct checkpoint_saver {
    struct checkpoint_saver_spec spec;
    struct thread *thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct checkpoint_counts counts;    /* under the lock, as is what follows */
    bool has_state, is_ended;
    struct snapshot **snapshots;        /* of the state that waits */
    struct checkpoint_mark mark;
    struct snapshot **taken;            /* the thread's own from here */
    struct checkpoint_mark taken_mark;
};

/* Wait for a state. False: there will be no more. */
static bool take_state(struct checkpoint_saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    while (!saver->has_state && !saver->is_ended)
        pthread_cond_wait(&saver->changed, &saver->lock);
    const bool found = saver->has_state;
    if (found) {
        memcpy(saver->taken, saver->snapshots, saver->spec.towers * sizeof(*saver->taken));
        saver->taken_mark = saver->mark;
        saver->has_state = false;
    }
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    return found;
}

static void tell(const struct checkpoint_saver *saver, int rc, const char *broken)
{
    char name[CHECKPOINT_FILE_BYTES];
    checkpoint_file_name(saver->taken_mark.position.step, name);
    if (saver->taken_mark.files == CHECKPOINT_BEST)
        snprintf(name, sizeof(name), CHECKPOINT_BEST_FILE);
    if (rc == -EDOM)
        log_message(LOG_ERROR, "%s/%s: not written: %s holds a number that " FINITE_WORDS,
                    run_directory_path(saver->spec.directory), name, broken);
    else
        log_message(LOG_ERROR, "%s/%s: %s: the run goes on, and what was saved before stays",
                    run_directory_path(saver->spec.directory), name, strerror(-rc));
}

void checkpoint_counts_add(struct checkpoint_counts *counts, int rc, uint64_t took_ns)
{
    counts->saved += rc == 0;
    counts->failures += rc != 0;
    if (rc == 0)
        counts->latest_ns = took_ns;
}

static void count(struct checkpoint_saver *saver, int rc, uint64_t took_ns)
{
    pthread_mutex_lock(&saver->lock);
    checkpoint_counts_add(&saver->counts, rc, took_ns);
    pthread_mutex_unlock(&saver->lock);
}

static void save(struct checkpoint_saver *saver)
{
    const struct checkpoint_saver_spec *const spec = &saver->spec;
    const uint64_t begun_ns = clock_now_ns();
    const char *broken = NULL;
    int rc = checkpoint_writer_take(spec->writer, saver->taken, &saver->taken_mark);
    for (uint32_t d = 0; d < spec->towers; d++)
        spec->give_back(spec->arg, d, saver->taken[d]);
    if (rc == 0)
        rc = checkpoint_writer_write(spec->writer, spec->directory, spec->keep, &broken);
    count(saver, rc, clock_now_ns() - begun_ns);
    if (rc != 0)
        tell(saver, rc, broken);
}

static void saver_loop(void *arg)
{
    struct checkpoint_saver *const saver = arg;
    while (take_state(saver))
        save(saver);
}

static void release(struct checkpoint_saver *saver)
{
    pthread_cond_destroy(&saver->changed);
    pthread_mutex_destroy(&saver->lock);
    free(saver->snapshots);
    free(saver->taken);
    free(saver);
}

int checkpoint_saver_start(struct checkpoint_saver **saver_out, const struct checkpoint_saver_spec *spec)
{
    struct checkpoint_saver *const saver = calloc(1, sizeof(*saver));
    if (saver == NULL)
        return -ENOMEM;
    saver->spec = *spec;
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    saver->snapshots = calloc(spec->towers, sizeof(*saver->snapshots));
    saver->taken = calloc(spec->towers, sizeof(*saver->taken));
    const bool has_room = saver->snapshots != NULL && saver->taken != NULL;
    const int rc = has_room ? thread_start(&saver->thread, "saver", saver_loop, saver) : -ENOMEM;
    if (rc == 0)
        *saver_out = saver;
    else
        release(saver);
    return rc;
}

void checkpoint_saver_put(struct checkpoint_saver *saver, struct snapshot *const *snapshots,
                          const struct checkpoint_mark *mark)
{
    pthread_mutex_lock(&saver->lock);
    while (saver->has_state)
        pthread_cond_wait(&saver->changed, &saver->lock);
    memcpy(saver->snapshots, snapshots, saver->spec.towers * sizeof(*snapshots));
    saver->mark = *mark;
    saver->has_state = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

void checkpoint_saver_count(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out)
{
    if (saver == NULL)
        return;
    pthread_mutex_lock(&saver->lock);
    *counts_out = saver->counts;
    pthread_mutex_unlock(&saver->lock);
}

void checkpoint_saver_end(struct checkpoint_saver *saver, struct checkpoint_counts *counts_out)
{
    if (saver == NULL)
        return;
    pthread_mutex_lock(&saver->lock);
    saver->is_ended = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    thread_join(saver->thread);
    *counts_out = saver->counts;
    release(saver);
}
