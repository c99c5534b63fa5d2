/* Opening and closing the ranks of a run, and the communication threads, which sleep until they are woken (wakeup.h).
 * While messages are in flight they poll them, at intervals that grow as long as nothing arrives. */
#include "sync/ranks/ranks.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "sync/ranks/abort_notice.h"
#include "sync/ranks/rank_tree.h"
#include "sync/ranks/ranks_private.h"

#define NAP_LEAST_NS 80000u
#define NAP_MOST_NS 2000000u
#define NAP_LISTENING_NS 5000000u       /* the longest nap while only messages from other hosts may arrive */
#define NAP_LONG_NS 20000000u           /* a nap when nothing is in flight and every rank can wake this one */
#define NAP_IDLE_NS 250000000u          /* a nap of a thread that has only jobs, when it has none */
#define CORES_FOR_3 8u          /* of a rank, for three communication threads */
#define CORES_FOR_4 16u
#define NAP_SHARE 5u                    /* a nap is at most 1/5 of the time since something arrived */
#define FLUSH_MS 200u
#define TIMER_SLACK_NS 1000ul           /* a nap may take this much longer; the kernel's default is 50 us */

/* ---- this rank and the others ---- */

uint32_t ranks_rank(const struct ranks *ranks)
{
    return ranks == NULL ? 0 : ranks->launcher.rank;
}

uint32_t ranks_size(const struct ranks *ranks)
{
    return ranks == NULL ? 1 : ranks->launcher.size;
}

uint32_t ranks_number_reduction(struct ranks *ranks)
{
    return ranks == NULL ? 0 : ++ranks->reductions;
}

uint32_t ranks_local_size(const struct ranks *ranks)
{
    return ranks == NULL ? 1 : ranks->launcher.local_size;
}

const char *ranks_name(const struct ranks *ranks, uint32_t rank)
{
    return atomic_load(&ranks->peers[rank].name);
}

const char *ranks_host(const struct ranks *ranks, uint32_t rank)
{
    return rank == ranks->launcher.rank ? ranks->host : ranks->peers[rank].host;
}

const struct rank_hosts *ranks_hosts(const struct ranks *ranks)
{
    return ranks->hosts;
}

const char *ranks_library(const struct ranks *ranks)
{
    return ranks->library;
}

const struct mpi_module *ranks_module(const struct ranks *ranks)
{
    return ranks->module;
}

void ranks_know(struct ranks *ranks, uint32_t rank, const char *host)
{
    struct peer *const peer = &ranks->peers[rank];
    peer->host = host;
    if (asprintf(&peer->known_name, "rank %u (%s)", rank, host) < 0)
        peer->known_name = NULL;
    else
        atomic_store(&peer->name, peer->known_name);
    peer->is_known = true;
}

static void send_heartbeats(struct ranks *ranks)
{
    for (uint32_t i = 0; i < neighbour_count(ranks); i++)
        rank_heartbeat_send(ranks, ranks->neighbours[i].rank);
}

void ranks_set_phase(struct ranks *ranks, const char *phase)
{
    if (ranks == NULL || atomic_exchange(&ranks->phase, phase) == phase)
        return;
    send_heartbeats(ranks);
}

void ranks_set_step(struct ranks *ranks, uint64_t step)
{
    if (ranks != NULL)
        atomic_store(&ranks->step, step);
}

void ranks_set_bucket(struct ranks *ranks, uint64_t bucket)
{
    if (ranks != NULL)
        atomic_store(&ranks->bucket, bucket);
}

/* ---- jobs ---- */

void ranks_submit(struct ranks *ranks, struct ranks_job *job)
{
    struct communication_thread *const thread = &ranks->threads[job->lane % atomic_load(&ranks->thread_count)];
    pthread_mutex_lock(&ranks->lock);
    job->next = NULL;
    *thread->job_end = job;
    thread->job_end = &job->next;
    thread->job_count++;
    pthread_mutex_unlock(&ranks->lock);
    wakeup_send(ranks->wakeup, ranks->launcher.rank, thread->number);
}

/* The next thread that has not dropped its jobs yet; NULL: there is none. Lock held. */
static struct communication_thread *find_abandoning(struct ranks *ranks)
{
    uint32_t number = 0;
    while (number < RANKS_THREADS_MAX && !ranks->threads[number].are_jobs_abandoned)
        number++;
    return number < RANKS_THREADS_MAX ? &ranks->threads[number] : NULL;
}

bool ranks_abandon_jobs(struct ranks *ranks)
{
    struct communication_thread *thread;
    pthread_mutex_lock(&ranks->lock);
    for (thread = ranks->threads; thread < ranks->threads + RANKS_THREADS_MAX; thread++)
        thread->are_jobs_abandoned = thread->are_jobs_abandoned || thread->job_count > 0;
    while ((thread = find_abandoning(ranks)) != NULL) {
        wakeup_send(ranks->wakeup, ranks->launcher.rank, thread->number);
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    }
    const bool was_abandoned = ranks->was_job_abandoned;
    pthread_mutex_unlock(&ranks->lock);
    return was_abandoned;
}

bool ranks_can_wake(const struct ranks *ranks, uint32_t rank)
{
    return wakeup_reaches(ranks->wakeup, rank);
}

void ranks_wake(struct ranks *ranks, uint32_t rank, uint32_t lane)
{
    wakeup_send(ranks->wakeup, rank, lane);
}

void ranks_begin_wait(struct ranks *ranks)
{
    atomic_fetch_add(&ranks->waiting_jobs, 1);
}

void ranks_wait_for(struct ranks *ranks, uint32_t rank, uint32_t round)
{
    atomic_store(&ranks->awaited, rank);
    atomic_store(&ranks->awaited_round, round);
}

void ranks_note_move(struct ranks *ranks)
{
    atomic_fetch_add(&ranks->moves, 1);
}

void ranks_end_wait(struct ranks *ranks)
{
    atomic_fetch_sub(&ranks->waiting_jobs, 1);
}

/* ---- the jobs of a communication thread ---- */

struct communication {
    struct communication_thread *thread;
    struct outgoing *in_flight;         /* messages that are being sent */
    struct ranks_job *jobs, **jobs_end; /* being executed */
    uint64_t moved_ns;                  /* when a message last arrived, was sent or was announced */
    uint32_t announced;                 /* wakeup_announced() in the previous turn of the loop */
};

static void fail_by_library(struct ranks *ranks, uint32_t peer, int error)
{
    char text[MPI_MODULE_TEXT_BYTES];
    ranks->module->explain(error, text);
    if (peer < ranks->launcher.size)
        ranks_fail(ranks, EXIT_CODE_RANK, "the connection to %s failed: %s", ranks_name(ranks, peer), text);
    else
        ranks_fail(ranks, EXIT_CODE_RANK, "a message between ranks failed: %s", text);
}

/* Take over the jobs that were submitted, or drop all of them after ranks_abandon_jobs. */
static void take_jobs(struct ranks *ranks, struct communication *work)
{
    struct communication_thread *const thread = work->thread;
    pthread_mutex_lock(&ranks->lock);
    if (thread->job_first != NULL)
        work->moved_ns = clock_now_ns();
    *work->jobs_end = thread->job_first;
    while (*work->jobs_end != NULL)
        work->jobs_end = &(*work->jobs_end)->next;
    thread->job_first = NULL;
    thread->job_end = &thread->job_first;
    if (thread->are_jobs_abandoned) {
        ranks->was_job_abandoned = ranks->was_job_abandoned || thread->job_count > 0;
        work->jobs = NULL;
        work->jobs_end = &work->jobs;
        thread->job_count = 0;
        thread->are_jobs_abandoned = false;
        pthread_cond_broadcast(&ranks->changed);
    }
    pthread_mutex_unlock(&ranks->lock);
}

static bool advance_jobs(struct ranks *ranks, struct communication *work)
{
    bool has_moved = false;
    struct ranks_job **link = &work->jobs;
    while (*link != NULL) {
        struct ranks_job *const job = *link, *const next = job->next;
        const int rc = job->advance(job);       /* when this returns, a completed job may be freed or submitted again */
        if (rc < 0)
            fail_by_library(ranks, UINT32_MAX, -rc);
        if (rc == 0) {
            has_moved = has_moved || job->has_moved;
            link = &job->next;
            continue;
        }
        *link = next;
        has_moved = true;
        pthread_mutex_lock(&ranks->lock);
        work->thread->job_count--;
        ranks->was_job_abandoned = ranks->was_job_abandoned || rc < 0;
        pthread_mutex_unlock(&ranks->lock);
    }
    work->jobs_end = link;
    return has_moved;
}

static bool are_jobs_polled(const struct communication *work)
{
    const struct ranks_job *job = work->jobs;
    while (job != NULL && !job->is_polled)
        job = job->next;
    return job != NULL;
}

/* The length of a nap in which something that is polled may happen. */
static uint64_t nap_length(const struct communication *work, uint64_t now, uint64_t most)
{
    const uint64_t length = (now - work->moved_ns) / NAP_SHARE;
    return length < NAP_LEAST_NS ? NAP_LEAST_NS : length > most ? most : length;
}

/* ---- the threads that have only jobs ---- */

/* Sleep until the thread is woken, or for a limited time. */
static void nap_between_jobs(struct ranks *ranks, const struct communication *work, uint32_t woken)
{
    const uint64_t now = clock_now_ns();
    const uint64_t length = are_jobs_polled(work) ? nap_length(work, now, NAP_MOST_NS)
                                                  : work->jobs != NULL ? NAP_LONG_NS : NAP_IDLE_NS;
    wakeup_sleep(ranks->wakeup, work->thread->number, woken, now + length);
}

static bool is_closing(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    const bool is_closing = ranks->is_closing;
    pthread_mutex_unlock(&ranks->lock);
    return is_closing;
}

static void execute_jobs(void *arg)
{
    struct communication_thread *const thread = arg;
    struct ranks *const ranks = thread->ranks;
    struct communication work = { .thread = thread, .moved_ns = clock_now_ns() };
    work.jobs_end = &work.jobs;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    while (!is_closing(ranks)) {
        const uint32_t woken = wakeup_count(ranks->wakeup, thread->number);
        take_jobs(ranks, &work);
        const bool has_moved = advance_jobs(ranks, &work);
        atomic_fetch_add(&thread->turns, 1);
        if (has_moved)
            work.moved_ns = clock_now_ns();
        else
            nap_between_jobs(ranks, &work, woken);
    }
}

/* Two threads in each rank where other hosts take part, and more with many cores: they share the bytes of the network,
 * and the additions. */
static uint32_t wanted_threads(const struct launcher *launcher)
{
    cpu_set_t cpus;
    if (launcher->local_size == launcher->size || sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        return 1;
    const uint32_t cores = (uint32_t)CPU_COUNT(&cpus) / launcher->local_size;
    return cores >= CORES_FOR_4 ? 4 : cores >= CORES_FOR_3 ? 3 : 2;
}

/* Start the other communication threads. 0, or an exit code after a message. */
static int start_threads(struct ranks *ranks, uint32_t count)
{
    wakeup_set_threads(ranks->wakeup, count);
    atomic_store(&ranks->thread_count, count);
    int rc = 0;
    for (uint32_t number = 1; number < count && rc == 0; number++)
        rc = thread_start(&ranks->threads[number].thread, "rank sums", execute_jobs, &ranks->threads[number]);
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "cannot start a thread that communicates with other ranks: %s", exit_cause(rc));
    return EXIT_CODE_MEMORY;
}

/* Wait until the other threads have ended, as they do when the ranks are being closed. */
static void join_threads(struct ranks *ranks)
{
    for (uint32_t number = 1; number < atomic_load(&ranks->thread_count); number++) {
        wakeup_send(ranks->wakeup, ranks->launcher.rank, number);
        thread_join(ranks->threads[number].thread);
    }
}

/* ---- the communication thread ---- */

/* Are there messages in flight that have to be polled? */
static bool has_messages(const struct ranks *ranks, const struct communication *work)
{
    const bool is_announced = wakeup_announced(ranks->wakeup) != ranks->announced_received;
    return work->in_flight != NULL || !ranks->are_connected || is_announced || are_jobs_polled(work);
}

/* Is there a rank that cannot wake this one? MPI receives its messages, and sends messages to it, only while MPI is
 * called. */
static bool has_to_listen(const struct ranks *ranks)
{
    bool has_to = false;
    for (uint32_t rank = 0; rank < ranks->launcher.size && !has_to; rank++)
        has_to = !wakeup_reaches(ranks->wakeup, rank);
    return has_to;
}

/* Sleep until the count of wake-ups differs from `woken`, or for a limited time. */
static void nap(struct ranks *ranks, const struct communication *work, uint32_t woken)
{
    const uint64_t now = clock_now_ns();
    const bool is_busy = has_messages(ranks, work);
    uint64_t length = NAP_LONG_NS;
    if (is_busy || has_to_listen(ranks))
        length = nap_length(work, now, is_busy ? NAP_MOST_NS : NAP_LISTENING_NS);
    wakeup_sleep(ranks->wakeup, 0, woken, now + length);
}

/* ---- neighbours ---- */

/* With few ranks all are neighbours of rank 0, from the start. */
static bool are_few(const struct ranks *ranks)
{
    return ranks->launcher.size <= RANK_TREE_CHILDREN + 1;
}

static int set_few_neighbours(struct ranks *ranks)
{
    const uint32_t count = ranks->launcher.rank == 0 ? ranks->launcher.size - 1 : 1;
    ranks->neighbours = calloc(count > 0 ? count : 1, sizeof(*ranks->neighbours));
    if (ranks->neighbours == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count && ranks->launcher.rank == 0; i++)
        ranks->neighbours[i].rank = 1 + i;
    atomic_store(&ranks->neighbour_count, count);
    return 0;
}

/* The ranks have told each other the names of their hosts: find the tree. 0 or -ENOMEM. */
static int find_parents(struct ranks *ranks)
{
    const uint32_t size = ranks->launcher.size;
    const char **const hosts = calloc(size, sizeof(*hosts));
    uint32_t *const parents = calloc(size, sizeof(*parents));
    for (uint32_t rank = 0; rank < size && hosts != NULL; rank++)
        hosts[rank] = rank_hosts_name(ranks->hosts, rank);
    const int rc = hosts != NULL && parents != NULL ? rank_tree_find(hosts, size, parents) : -ENOMEM;
    free(hosts);
    if (rc == 0)
        ranks->parents = parents;
    else
        free(parents);
    return rc;
}

static void know_names(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    for (uint32_t rank = 0; rank < ranks->launcher.size; rank++)
        if (!ranks->peers[rank].is_known)
            ranks_know(ranks, rank, rank_hosts_name(ranks->hosts, rank));
    pthread_mutex_unlock(&ranks->lock);
}

/* The parent, if there is one, and the children. Returns their number. */
static uint32_t find_neighbours(const struct ranks *ranks, struct neighbour *neighbours)
{
    const uint32_t own = ranks->launcher.rank;
    uint32_t count = 0;
    if (own > 0 && neighbours != NULL)
        neighbours[0].rank = ranks->parents[own];
    count += own > 0;
    for (uint32_t rank = 1; rank < ranks->launcher.size; rank++)
        if (ranks->parents[rank] == own) {
            if (neighbours != NULL)
                neighbours[count].rank = rank;
            count++;
        }
    return count;
}

/* 0 or -ENOMEM. */
static int set_neighbours(struct ranks *ranks)
{
    const int rc = find_parents(ranks);
    if (rc != 0)
        return rc;
    const uint32_t count = find_neighbours(ranks, NULL);
    ranks->neighbours = calloc(count > 0 ? count : 1, sizeof(*ranks->neighbours));
    if (ranks->neighbours == NULL)
        return -ENOMEM;
    (void)find_neighbours(ranks, ranks->neighbours);
    know_names(ranks);
    atomic_store(&ranks->neighbour_count, count);
    return ranks->launcher.rank > 0 && count > 1 ? messages_collect(ranks) : 0;
}

/* Many ranks have connected: exchange messages with the neighbours. 0 or an error of the MPI library. */
static int join_tree(struct ranks *ranks, uint32_t *peer_out)
{
    if (set_neighbours(ranks) != 0) {
        ranks_fail(ranks, EXIT_CODE_MEMORY, "the tree of all ranks: %s", strerror(ENOMEM));
        return 0;
    }
    const int rc = messages_begin(ranks, peer_out);
    send_heartbeats(ranks);
    return rc;
}

/* Find the ranks of this host, then those of them that can wake this one. Returns 1 when that is done, 0 before, or
 * negative an error of the MPI library. */
static int connect_hosts(struct ranks *ranks, struct rank_wait *wait_out)
{
    const int rc = ranks->are_hosts_known ? 1 : rank_hosts_exchange(ranks->hosts, HOSTS_TAG, wait_out);
    if (rc != 1)
        return rc;
    if (!ranks->are_hosts_known && wakeup_know_hosts(ranks->wakeup) != 0) {
        ranks_fail(ranks, EXIT_CODE_MEMORY, "the ranks of this host: %s", strerror(ENOMEM));
        return 0;
    }
    ranks->are_hosts_known = true;
    return wakeup_connect(ranks->wakeup, WAKEUP_TAG, wait_out);
}

/* Called repeatedly until all ranks know which ranks can wake each other. 0 or an error of the MPI library. */
static int connect_ranks(struct ranks *ranks, uint32_t *peer_out)
{
    struct rank_wait wait = { .rank = ranks->launcher.rank };
    int rc = connect_hosts(ranks, &wait);
    const int joined = rc == 1 && !are_few(ranks) ? join_tree(ranks, peer_out) : 0;
    if (rc < 0 || joined != 0)
        return rc < 0 ? -rc : joined;
    atomic_store(&ranks->unconnected, wait.rank);
    atomic_store(&ranks->lacks_answer, wait.for_answer);
    pthread_mutex_lock(&ranks->lock);
    ranks->are_connected = rc == 1;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
    return 0;
}

/* True when the ranks are being closed and all messages are sent, or a rank has failed. */
static bool is_done(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    const bool is_done = ranks->is_closing && (ranks->out_count == 0 || ranks->has_failed);
    pthread_mutex_unlock(&ranks->lock);
    return is_done;
}

static void communicate_until_closed(struct ranks *ranks)
{
    struct communication work = { .thread = &ranks->threads[0], .moved_ns = clock_now_ns() };
    work.jobs_end = &work.jobs;
    uint32_t peer = UINT32_MAX;
    int rc = messages_begin(ranks, &peer);
    while (!is_done(ranks)) {
        const uint32_t woken = wakeup_count(ranks->wakeup, 0);
        bool has_moved = false;
        if (rc == 0 && !ranks->are_connected) {
            peer = UINT32_MAX;
            rc = connect_ranks(ranks, &peer);
        }
        if (rc == 0)
            rc = messages_advance(ranks, &work.in_flight, &has_moved, &peer);
        if (rc != 0)
            fail_by_library(ranks, peer, rc);
        const uint32_t announced = wakeup_announced(ranks->wakeup);
        has_moved = has_moved || announced != work.announced;
        work.announced = announced;
        take_jobs(ranks, &work);
        has_moved = advance_jobs(ranks, &work) || has_moved;
        atomic_fetch_add(&work.thread->turns, 1);
        if (has_moved)
            work.moved_ns = clock_now_ns();
        else
            nap(ranks, &work, woken);
    }
}

static void set_open(struct ranks *ranks, int code)
{
    pthread_mutex_lock(&ranks->lock);
    ranks->is_open = true;
    ranks->open_code = code;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

static int initialize(struct ranks *ranks)
{
    uint32_t rank, size;
    bool has_threads;
    char text[LAUNCHER_REASON_BYTES];
    const uint32_t threads = wanted_threads(&ranks->launcher);
    atomic_store(&ranks->call, "MPI_Init");
    const int rc = ranks->module->init(threads > 1, &rank, &size, &has_threads);
    atomic_store(&ranks->call, NULL);
    if (rc != 0) {
        ranks->module->explain(rc, text);
        log_message(LOG_ERROR, "MPI_Init: %s", text);
        return EXIT_CODE_RANK;
    }
    ranks->module->name(ranks->library);
    if (launcher_check(&ranks->launcher, rank, size, text) == 0)
        return start_threads(ranks, has_threads ? threads : 1);
    log_message(LOG_ERROR, "%s", text);
    return EXIT_CODE_USAGE;
}

static void communication_loop(void *arg)
{
    struct ranks *const ranks = arg;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    const int code = initialize(ranks);
    set_open(ranks, code);
    if (code != 0)
        return;
    send_heartbeats(ranks);
    communicate_until_closed(ranks);
    if (ranks_failed(ranks))
        return;
    join_threads(ranks);
    if (ranks->was_job_abandoned)
        return;
    messages_end(ranks);
    atomic_store(&ranks->call, "MPI_Finalize");
    (void)ranks->module->finalize();
    atomic_store(&ranks->call, NULL);
}

/* ---- opening and closing ---- */

static int init(struct ranks *ranks, const struct launcher *launcher, uint32_t deadline_s)
{
    ranks->launcher = *launcher;
    ranks->out_end = &ranks->out_first;
    for (uint32_t number = 0; number < RANKS_THREADS_MAX; number++) {
        struct communication_thread *const thread = &ranks->threads[number];
        thread->ranks = ranks;
        thread->number = number;
        thread->job_end = &thread->job_first;
    }
    atomic_init(&ranks->thread_count, 1);
    atomic_init(&ranks->phase, "starting");
    atomic_init(&ranks->step, RANKS_NONE);
    atomic_init(&ranks->bucket, RANKS_NONE);
    ranks->deadline_s = deadline_s;
    if (gethostname(ranks->host, sizeof(ranks->host) - 1) != 0)
        snprintf(ranks->host, sizeof(ranks->host), "unknown host");
    pthread_mutex_init(&ranks->lock, NULL);
    pthread_cond_init(&ranks->changed, NULL);
    clock_init_condition(&ranks->heartbeat_changed);
    ranks->peers = calloc(launcher->size, sizeof(*ranks->peers));
    ranks->numbers = calloc(launcher->size, sizeof(*ranks->numbers));
    if (ranks->peers == NULL || ranks->numbers == NULL)
        return -ENOMEM;
    atomic_init(&ranks->neighbour_count, 0);
    for (uint32_t rank = 0; rank < launcher->size; rank++) {
        struct peer *const peer = &ranks->peers[rank];
        peer->end = &peer->first;
        peer->host = "";
        snprintf(ranks->numbers[rank], RANK_NUMBER_BYTES, "rank %u", rank);
        atomic_init(&peer->name, ranks->numbers[rank]);
    }
    ranks_know(ranks, launcher->rank, ranks->host);
    int rc = are_few(ranks) ? set_few_neighbours(ranks) : 0;
    if (rc == 0)
        rc = rank_hosts_open(&ranks->hosts, ranks);
    return rc == 0 ? wakeup_open(&ranks->wakeup, ranks) : rc;
}

/* Is MPI initialized, is the wake-up connected with all ranks, and has a heartbeat of every peer arrived? */
static bool are_all_connected(const struct ranks *ranks)
{
    bool are_all = ranks->is_open && ranks->are_connected;
    for (uint32_t i = 0; i < neighbour_count(ranks); i++)
        are_all = are_all && ranks->peers[ranks->neighbours[i].rank].is_known;
    return are_all;
}

static int await_all(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    while (!are_all_connected(ranks) && ranks->open_code == 0 && !ranks->has_failed)
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    const int code = ranks->has_failed ? ranks->failure.code : ranks->open_code;
    pthread_mutex_unlock(&ranks->lock);
    return code;
}

int ranks_open(struct ranks **ranks_out, const struct launcher *launcher, const struct mpi_module *module,
               uint32_t deadline_s)
{
    struct ranks *const ranks = calloc(1, sizeof(*ranks));
    int rc = ranks == NULL ? -ENOMEM : init(ranks, launcher, deadline_s);
    if (rc == 0) {
        ranks->module = module;
        abort_notice_prepare();
        rc = thread_start(&ranks->heartbeat, "heartbeat", rank_heartbeat_loop, ranks);
    }
    if (rc == 0)
        rc = thread_start(&ranks->threads[0].thread, "ranks", communication_loop, ranks);
    if (rc != 0) {
        log_message(LOG_ERROR, "cannot communicate with the other ranks: %s", exit_cause(rc));
        return EXIT_CODE_MEMORY;
    }
    *ranks_out = ranks;
    return await_all(ranks);
}

static void set_flag(struct ranks *ranks, bool *flag)
{
    pthread_mutex_lock(&ranks->lock);
    *flag = true;
    pthread_cond_signal(&ranks->heartbeat_changed);
    pthread_mutex_unlock(&ranks->lock);
    wakeup_send(ranks->wakeup, ranks->launcher.rank, 0);
}

static void release(struct ranks *ranks)
{
    for (uint32_t rank = 0; rank < ranks->launcher.size; rank++)
        for (struct message *message = ranks->peers[rank].first, *next; message != NULL; message = next) {
            next = message->next;
            free(message);
        }
    for (struct outgoing *out = ranks->out_first, *next; out != NULL; out = next) {     /* heartbeats */
        next = out->next;
        free(out);
    }
    wakeup_close(ranks->wakeup);
    rank_hosts_close(ranks->hosts);
    for (uint32_t i = 0; i < COLLECTED_KINDS; i++) {
        free(ranks->collections[i].data);
        free(ranks->collections[i].counts);
    }
    free(ranks->parents);
    free(ranks->neighbours);
    for (uint32_t rank = 0; rank < ranks->launcher.size; rank++)
        free(ranks->peers[rank].known_name);
    free(ranks->numbers);
    free(ranks->peers);
    pthread_cond_destroy(&ranks->heartbeat_changed);
    pthread_cond_destroy(&ranks->changed);
    pthread_mutex_destroy(&ranks->lock);
    free(ranks);
}

static bool ranks_need_launcher(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    const bool need = ranks->needs_launcher;
    pthread_mutex_unlock(&ranks->lock);
    return need;
}

void ranks_close(struct ranks *ranks)
{
    if (ranks == NULL)
        return;
    if (ranks_failed(ranks)) {
        if (!ranks->is_open)
            launcher_abort(ranks->failure.code);
        else if (!ranks_need_launcher(ranks))
            ranks->module->leave();
        return;
    }
    set_flag(ranks, &ranks->is_closing);
    thread_join(ranks->threads[0].thread);
    if (ranks_failed(ranks)) {          /* this rank or another failed during closing, so MPI is not finalized */
        output_flush(FLUSH_MS);
        _exit(ranks->failure.code);
    }
    set_flag(ranks, &ranks->heartbeat_ends);
    thread_join(ranks->heartbeat);
    release(ranks);
}
