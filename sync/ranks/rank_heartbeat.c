/* The heartbeat thread checks four times a second that its neighbours (for rank 0 all other ranks, for others rank 0; with
 * many ranks the parent and the children in the tree) and the communication threads of this rank are alive. It counts these polls instead of reading a clock, so that after a
 * process was suspended it does not report the other ranks as silent. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "sync/ranks/abort_notice.h"
#include "sync/ranks/ranks_private.h"

#define POLLS_PER_SECOND 4u
/* the fewest heartbeats before the deadline; if it is long, one is sent each second */
#define HEARTBEATS_IN_DEADLINE 4u
#define GRACE_POLLS 7u          /* polls in which a run may end by itself after a rank became silent */
#define FLUSH_MS 200u
#define CAUSE_S 5

/* ---- heartbeats ---- */

void ranks_set_sums(struct ranks *ranks, uint64_t count)
{
    atomic_store(&ranks->sums, count);
}

void ranks_add_sum(struct ranks *ranks)
{
    atomic_fetch_add(&ranks->sums, 1);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool is_parent(const struct ranks *ranks, uint32_t neighbour)
{
    return ranks->launcher.rank != 0 && neighbour == ranks->neighbours[0].rank;
}

/* The least number of this rank and those below it. */
static uint64_t sums_below(struct ranks *ranks)
{
    uint64_t least = atomic_load(&ranks->sums);
    pthread_mutex_lock(&ranks->lock);
    for (uint32_t i = 0; i < neighbour_count(ranks); i++)
        if (!is_parent(ranks, ranks->neighbours[i].rank))
            least = lesser(least, ranks->neighbours[i].heartbeat.sums);
    pthread_mutex_unlock(&ranks->lock);
    return least;
}

uint64_t ranks_sums(struct ranks *ranks)
{
    if (ranks->launcher.rank == 0)
        return sums_below(ranks);
    pthread_mutex_lock(&ranks->lock);
    const uint64_t all = neighbour_count(ranks) > 0 ? ranks->neighbours[0].heartbeat.sums : 0;
    pthread_mutex_unlock(&ranks->lock);
    return lesser(all, atomic_load(&ranks->sums));
}

/* The heartbeat to a neighbour. */
static struct rank_heartbeat own_heartbeat(struct ranks *ranks, uint32_t to)
{
    struct rank_heartbeat heartbeat = { .step = atomic_load(&ranks->step), .bucket = atomic_load(&ranks->bucket) };
    heartbeat.sums = is_parent(ranks, to) ? sums_below(ranks) : ranks_sums(ranks);
    snprintf(heartbeat.phase, sizeof(heartbeat.phase), "%s", atomic_load(&ranks->phase));
    memcpy(heartbeat.host, ranks->host, sizeof(heartbeat.host));
    return heartbeat;
}

void rank_heartbeat_send(struct ranks *ranks, uint32_t to)
{
    const struct rank_heartbeat heartbeat = own_heartbeat(ranks, to);
    struct neighbour *const neighbour = neighbour_of(ranks, to);
    pthread_mutex_lock(&ranks->lock);
    const bool is_queued = neighbour->has_heartbeat_queued;
    neighbour->has_heartbeat_queued = true;
    pthread_mutex_unlock(&ranks->lock);
    if (is_queued || ranks_send(ranks, to, MESSAGE_HEARTBEAT, &heartbeat, sizeof(heartbeat)) == 0)
        return;
    pthread_mutex_lock(&ranks->lock);
    neighbour->has_heartbeat_queued = false;   /* the next heartbeat may be queued */
    pthread_mutex_unlock(&ranks->lock);
}

void rank_heartbeat_receive(struct ranks *ranks, uint32_t from, const struct rank_heartbeat *heartbeat)
{
    struct neighbour *const neighbour = neighbour_of(ranks, from);
    pthread_mutex_lock(&ranks->lock);
    neighbour->heartbeat = *heartbeat;
    neighbour->age = 0;
    if (!ranks->peers[from].is_known) {
        snprintf(neighbour->host, sizeof(neighbour->host), "%s", heartbeat->host);
        ranks_know(ranks, from, neighbour->host);
        pthread_cond_broadcast(&ranks->changed);
    }
    pthread_mutex_unlock(&ranks->lock);
}

/* ---- failures ---- */

/* Returns the exit code for the other ranks. mpirun of MPICH exits with the bitwise or of all codes (3 | 72 is 75), so
 * with MPICH all ranks use the same code. */
static int code_for_others(const struct ranks *ranks, int code)
{
    return code == EXIT_CODE_STALL || ranks->launcher.mpi == MPI_LIBRARY_MPICH ? code : EXIT_CODE_RANK;
}

/* Nobody waits any more for messages of a rank that another has found silent. Lock held. */
static void note_silence(struct ranks *ranks, const struct failure *failure)
{
    if (failure->silent < ranks->launcher.size && failure->silent != ranks->launcher.rank)
        ranks->peers[failure->silent].is_silent = true;
    pthread_cond_broadcast(&ranks->changed);
}

/* Record a failure. True if it is the first one, which determines the exit code: the caller then has to call
 * broadcast_failure. */
static bool note_failure(struct ranks *ranks, const struct failure *failure)
{
    pthread_mutex_lock(&ranks->lock);
    const bool is_first = !ranks->has_failed;
    if (is_first) {
        ranks->failure = *failure;
        ranks->has_failed = ranks->is_failing = true;
        messages_queue_collected(ranks);
        pthread_cond_broadcast(&ranks->changed);
    }
    pthread_mutex_unlock(&ranks->lock);
    return is_first;
}

/* End the run of this process, and report the failure to all peers except `except`. Before this is done, main neither
 * closes the run nor exits. */
static void broadcast_failure(struct ranks *ranks, const struct failure *failure, uint32_t except)
{
    struct failure sent = *failure;
    sent.code = code_for_others(ranks, failure->code);
    if (ranks->stop != NULL)
        stop_fail_silently(ranks->stop, (enum exit_code)failure->code, failure->text);
    for (uint32_t i = 0; i < neighbour_count(ranks); i++)
        if (ranks->neighbours[i].rank != except)
            (void)ranks_send(ranks, ranks->neighbours[i].rank, MESSAGE_FAILURE, &sent, sizeof(sent));
    pthread_mutex_lock(&ranks->lock);
    ranks->is_failing = false;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

void ranks_receive_failure(struct ranks *ranks, uint32_t from, const struct failure *failure)
{
    struct failure sent = *failure;
    pthread_mutex_lock(&ranks->lock);
    note_silence(ranks, failure);
    pthread_mutex_unlock(&ranks->lock);
    if (from == failure->origin && from != 0) {         /* its neighbour knows its name */
        const int length = snprintf(sent.text, sizeof(sent.text), "%s: ", ranks_name(ranks, from));
        snprintf(sent.text + length, sizeof(sent.text) - (size_t)length, "%s", failure->text);
    }
    if (note_failure(ranks, &sent))
        broadcast_failure(ranks, &sent, from);
}

/* Fail the run because of an error of this process, or of the rank `silent`. */
static __attribute__((format(printf, 4, 0))) void fail(struct ranks *ranks, int code, uint32_t silent,
                                                       const char *format, va_list arguments)
{
    struct failure failure = { .code = code, .origin = ranks->launcher.rank, .silent = silent };
    vsnprintf(failure.text, sizeof(failure.text), format, arguments);
    if (!note_failure(ranks, &failure))
        return;
    log_message(LOG_ERROR, "%s", failure.text);
    broadcast_failure(ranks, &failure, ranks->launcher.rank);
}

void ranks_fail(struct ranks *ranks, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(ranks, code, RANK_NOBODY, format, arguments);
    va_end(arguments);
}

static void fail_for_silence(struct ranks *ranks, uint32_t silent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fail_for_silence(struct ranks *ranks, uint32_t silent, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(ranks, EXIT_CODE_STALL, silent, format, arguments);
    va_end(arguments);
}

void ranks_announce_failure(struct ranks *ranks)
{
    struct failure failure = { .code = stop_code(ranks->stop), .origin = ranks->launcher.rank, .silent = RANK_NOBODY };
    snprintf(failure.text, sizeof(failure.text), "%s", stop_message(ranks->stop));
    if (note_failure(ranks, &failure))
        broadcast_failure(ranks, &failure, ranks->launcher.rank);
}

/* Report to other ranks that the run of this process has failed; its `stop` has printed the cause. */
static void announce(void *arg)
{
    struct ranks *const ranks = arg;
    if (stop_code(ranks->stop) != EXIT_CODE_NONFINITE)
        ranks_announce_failure(ranks);
}

int ranks_set_stop(struct ranks *ranks, struct stop *stop)
{
    if (ranks == NULL)
        return 0;
    if (stop == NULL && ranks->stop != NULL)
        stop_withdraw(ranks->stop, ranks);
    pthread_mutex_lock(&ranks->lock);
    while (ranks->is_failing)
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    ranks->stop = stop;
    const bool has_failed = ranks->has_failed;
    pthread_mutex_unlock(&ranks->lock);
    if (stop == NULL)
        return 0;
    if (has_failed)
        stop_fail_silently(stop, (enum exit_code)ranks->failure.code, ranks->failure.text);
    return stop_on_failure(stop, announce, ranks);
}

void ranks_await_cause(struct ranks *ranks)
{
    struct timespec until;
    if (ranks == NULL)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CAUSE_S;
    pthread_mutex_lock(&ranks->lock);
    int rc = 0;
    while ((!ranks->has_failed || ranks->is_failing) && rc == 0)
        rc = pthread_cond_timedwait(&ranks->changed, &ranks->lock, &until);
    pthread_mutex_unlock(&ranks->lock);
}

bool ranks_failed(const struct ranks *ranks)
{
    if (ranks == NULL)
        return false;
    struct ranks *const writable = (struct ranks *)ranks;
    pthread_mutex_lock(&writable->lock);
    const bool has_failed = ranks->has_failed;
    pthread_mutex_unlock(&writable->lock);
    return has_failed;
}

int ranks_failure_code(const struct ranks *ranks)
{
    return ranks_failed(ranks) ? ranks->failure.code : EXIT_CODE_RANK;
}

/* ---- the thread ---- */

static double polls_in_seconds(uint32_t polls)
{
    return (double)polls / POLLS_PER_SECOND;
}

static void describe_activity(const struct rank_heartbeat *heartbeat, char *text, size_t text_size)
{
    int length = snprintf(text, text_size, "%s", heartbeat->phase);
    if (heartbeat->step != RANKS_NONE && length > 0 && (size_t)length < text_size)
        length += snprintf(text + length, text_size - (size_t)length, ", step %llu",
                           (unsigned long long)heartbeat->step);
    if (heartbeat->bucket != RANKS_NONE && length > 0 && (size_t)length < text_size)
        snprintf(text + length, text_size - (size_t)length, ", in the sum of bucket %llu",
                 (unsigned long long)heartbeat->bucket);
}

/* A process may never end by itself, so the launcher has to end it: exit without leaving the launcher. After another
 * failure, ranks that have ended are silent, too. */
static void note_standstill(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    ranks->needs_launcher = ranks->needs_launcher || !ranks->has_failed;
    pthread_mutex_unlock(&ranks->lock);
}

static void report_silent(struct ranks *ranks, uint32_t rank, uint32_t deadline)
{
    char place[160], here[160];
    const struct rank_heartbeat own = own_heartbeat(ranks, rank);
    pthread_mutex_lock(&ranks->lock);
    const struct rank_heartbeat last = neighbour_of(ranks, rank)->heartbeat;
    const bool is_known = ranks->peers[rank].is_known;
    pthread_mutex_unlock(&ranks->lock);
    note_standstill(ranks);
    describe_activity(&own, here, sizeof(here));
    describe_activity(&last, place, sizeof(place));
    if (!is_known)
        fail_for_silence(ranks, rank, "nothing received from %s for %.0f s (sync.deadline): did it start?",
                         ranks_name(ranks, rank), polls_in_seconds(deadline));
    else
        fail_for_silence(ranks, rank, "%s has been silent for %.0f s (sync.deadline); last heartbeat: %s (here: %s)",
                         ranks_name(ranks, rank), polls_in_seconds(deadline), place, here);
}

/* Called at every poll. The failure is recorded before the peer is marked as silent, so that a thread whose wait for a
 * message of the peer then ends finds the cause. */
static void check_neighbour(struct ranks *ranks, struct neighbour *neighbour, uint32_t deadline)
{
    struct peer *const peer = &ranks->peers[neighbour->rank];
    pthread_mutex_lock(&ranks->lock);
    const bool is_late = !peer->is_silent && ++neighbour->age > deadline;
    pthread_mutex_unlock(&ranks->lock);
    if (!is_late)
        return;
    report_silent(ranks, neighbour->rank, deadline);
    pthread_mutex_lock(&ranks->lock);
    peer->is_silent = true;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

/* Polls in which a communication thread has made no turn of its loop. */
struct standstill { uint64_t turns; uint32_t polls; };

static void count_standstill(struct standstill *standstill, uint64_t turns)
{
    standstill->polls = turns == standstill->turns ? standstill->polls + 1 : 0;
    standstill->turns = turns;
}

/* Fail if a communication thread has stood still for `deadline` polls. Returns the polls of the one that has for
 * longest. */
static uint32_t check_communication(struct ranks *ranks, struct standstill *standstills, uint32_t deadline)
{
    uint32_t most = 0;
    for (uint32_t number = 0; number < atomic_load(&ranks->thread_count); number++) {
        count_standstill(&standstills[number], atomic_load(&ranks->threads[number].turns));
        most = standstills[number].polls > most ? standstills[number].polls : most;
    }
    if (most != deadline)
        return most;
    const char *const call = atomic_load(&ranks->call);
    note_standstill(ranks);
    if (call != NULL && strcmp(call, "MPI_Init") == 0)
        ranks_fail(ranks, EXIT_CODE_STALL, "MPI_Init has not returned for %.0f s (sync.deadline): another rank did "
                        "not start, or ended before it", polls_in_seconds(deadline));
    else
        ranks_fail(ranks, EXIT_CODE_STALL, "the MPI library has not returned%s%s for %.0f s (sync.deadline)",
                        call != NULL ? " from " : "", call != NULL ? call : "", polls_in_seconds(deadline));
    return most;
}

/* MPI_Init waits for all ranks: check whether a rank on this host has ended with an error, which it has printed. */
static void check_abort_notices(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    const bool waits = !ranks->is_open && !ranks->has_failed;
    pthread_mutex_unlock(&ranks->lock);
    const int code = waits ? abort_notice_receive() : 0;
    if (code == 0)
        return;
    pthread_mutex_lock(&ranks->lock);
    ranks->failure.code = code;
    ranks->has_failed = true;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

/* Many ranks have no neighbours yet to which they could report a failure: rank 0 ends, and with it the launcher all
 * others, before these report the same, and of others the two that cannot reach each other before those that wait for
 * their answers. */
static uint32_t connection_extra_s(const struct ranks *ranks, uint32_t other)
{
    const bool is_higher = other < ranks->launcher.rank, lacks_answer = atomic_load(&ranks->lacks_answer);
    if (neighbour_count(ranks) > 0)
        return lacks_answer ? 4 : is_higher ? 3 : 2;
    return lacks_answer ? 10 : ranks->launcher.rank == 0 ? 2 : is_higher ? 7 : 6;
}

/* At the start a message of every rank has to get to rank 0, and its answer to every rank (rank_hosts_exchange), and
 * messages between the ranks of a host (rank_memory_connect); `*waited` counts the polls until all have arrived. If two
 * ranks cannot reach each other, all ranks wait, but only rank 0 or the lower rank of the two is to report the error.
 * Therefore the higher rank waits one second longer, and ranks that lack only an answer wait two seconds longer. A rank whose heartbeats do not reach rank 0 was reported earlier, by check_neighbour. */
static void check_connections(struct ranks *ranks, uint32_t *waited, uint32_t deadline)
{
    const uint32_t other = atomic_load(&ranks->unconnected);
    const uint32_t extra_s = connection_extra_s(ranks, other);
    pthread_mutex_lock(&ranks->lock);
    const bool waits = ranks->is_open && ranks->open_code == 0 && !ranks->are_connected;
    pthread_mutex_unlock(&ranks->lock);
    *waited = waits ? *waited + 1 : 0;
    if (*waited <= deadline + extra_s * POLLS_PER_SECOND)
        return;
    note_standstill(ranks);
    ranks_fail(ranks, EXIT_CODE_STALL, "nothing received from %s for %.0f s (sync.deadline): do the two use the same "
               "network?", ranks_name(ranks, other), polls_in_seconds(deadline));
}

/* Polls in which no message of a reduction has moved. */
struct still_sums { uint64_t started, moves; uint32_t polls; };

/* Are all ranks in the same reductions, and messages in flight that do not move? */
static bool are_sums_still(struct ranks *ranks, const struct still_sums *before, const struct still_sums *now)
{
    return atomic_load(&ranks->waiting_jobs) > 0 && now->moves == before->moves && now->started == before->started &&
           ranks_sums(ranks) >= now->started;
}

/* Heartbeats do not go between any two ranks: find those that cannot reach each other by the messages of their sums. */
static void check_sums(struct ranks *ranks, struct still_sums *still, uint32_t deadline)
{
    const uint32_t other = atomic_load(&ranks->awaited), is_higher = other < ranks->launcher.rank;
    struct still_sums now = { .started = atomic_load(&ranks->sums), .moves = atomic_load(&ranks->moves) };
    now.polls = are_sums_still(ranks, still, &now) ? still->polls + 1 : 0;
    *still = now;
    if (now.polls <= deadline + (2 * atomic_load(&ranks->awaited_round) + is_higher) * POLLS_PER_SECOND)
        return;
    note_standstill(ranks);
    ranks_fail(ranks, EXIT_CODE_STALL, "nothing received from %s for %.0f s (sync.deadline) in a sum that all ranks have "
               "begun: do the two use the same network?", ranks_name(ranks, other), polls_in_seconds(deadline));
}

/* Exit if this process cannot end by itself: a rank is silent, the MPI library hangs, or a message for which other
 * ranks wait was lost. */
static void exit_if_stalled(struct ranks *ranks, bool is_hanging)
{
    pthread_mutex_lock(&ranks->lock);
    const bool is_stalled = ranks->has_failed &&
                            (is_hanging || ranks->has_lost_message || ranks->failure.code == EXIT_CODE_STALL);
    const bool is_late = is_stalled && ++ranks->failed_polls > GRACE_POLLS;
    const bool leaves = ranks->failure.code == EXIT_CODE_STALL && ranks->is_open && !ranks->needs_launcher;
    pthread_mutex_unlock(&ranks->lock);
    if (!is_late)
        return;
    if (ranks->launcher.rank > 0)
        log_sender(ranks_name(ranks, ranks->launcher.rank));
    (void)log_release();
    output_flush(FLUSH_MS);
    if (leaves)
        ranks->module->leave();
    _exit(ranks->failure.code);
}

/* Sleep until the next poll. False if the thread has to end. */
static bool sleep_until_poll(struct ranks *ranks)
{
    const uint64_t due_ns = clock_now_ns() + 1000000000u / POLLS_PER_SECOND;
    const struct timespec due = clock_timespec(due_ns);
    int rc = 0;
    pthread_mutex_lock(&ranks->lock);
    while (rc == 0 && !ranks->heartbeat_ends)
        rc = pthread_cond_timedwait(&ranks->heartbeat_changed, &ranks->lock, &due);
    const bool has_to_end = ranks->heartbeat_ends;
    pthread_mutex_unlock(&ranks->lock);
    return !has_to_end;
}

void rank_heartbeat_loop(void *arg)
{
    struct ranks *const ranks = arg;
    struct standstill standstills[RANKS_THREADS_MAX] = { { 0 } };
    struct still_sums still_sums = { .polls = 0 };
    uint32_t unconnected = 0;
    const uint32_t deadline = ranks->deadline_s * POLLS_PER_SECOND;
    const uint32_t period = deadline < HEARTBEATS_IN_DEADLINE * POLLS_PER_SECOND ? 1 : POLLS_PER_SECOND;
    for (uint32_t poll = 0; sleep_until_poll(ranks); poll++) {
        check_abort_notices(ranks);
        const uint32_t still = check_communication(ranks, standstills, deadline);
        for (uint32_t i = 0; i < neighbour_count(ranks) && poll % period == 0; i++)
            rank_heartbeat_send(ranks, ranks->neighbours[i].rank);
        for (uint32_t i = 0; i < neighbour_count(ranks); i++)
            check_neighbour(ranks, &ranks->neighbours[i], deadline);
        check_connections(ranks, &unconnected, deadline);
        check_sums(ranks, &still_sums, deadline);
        exit_if_stalled(ranks, still >= deadline);
    }
}
