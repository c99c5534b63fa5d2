/* The towers of other ranks. Rank 0 allows some batches beyond those that all ranks have reported: enough that no tower
 * waits for permission, and so few that the run ends soon after a request to stop. */
#include "tools/lib/run/ranks/remote_towers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "tools/lib/run/account.h"
#include "tools/lib/signals.h"

#define AHEAD_LEAST 2u                  /* at least so many batches are allowed beyond the reported ones */
#define AHEAD_MOST 64u
#define AHEAD_NS 150000000u             /* the time that the allowed batches take, within these limits */

/* The members of struct step_report that main of rank 0 uses, as a message. Host times are relative to
 * remote_towers_go. */
struct remote_report {
    struct backend_result result;
    struct step_times times;
    uint64_t ended_ns, seen_ns, order;
    double gradient_norm;
    uint32_t staleness, batches_found, slots_found;
    int32_t broken;                     /* index of a parameter of the net that is not finite; -1: none */
};

/* A message has for each batch of a group a struct remote_report for each tower; in an evaluation the answers of all
 * towers follow. */
_Static_assert(sizeof(struct answer) % _Alignof(struct remote_report) == 0, "reports of the next batch are aligned");

/* A received group, and how much of it was read. */
struct report_group {
    struct message *message;            /* NULL: all was read */
    size_t used;
};

struct remote_towers {
    struct remote_towers_spec spec;
    uint64_t begun_ns;                  /* time of remote_towers_go */
    struct step_report *reports;        /* [tower of another rank], of the latest batch */
    struct answer *answers;             /* of all reports of other ranks */
    unsigned char *packed;              /* the group that this process sends next */
    size_t packed_bytes;
    struct report_group *groups;             /* of rank 0: [rank] */
    uint64_t reported_ns;               /* when the latest group was complete */
    uint32_t reported;                  /* batches since then */
    double step_ns;                     /* a moving average; 0: not known yet */
    pthread_mutex_t lock;               /* guards the members below */
    uint64_t limit;                     /* batches below this number may begin */
    uint64_t allowed;                   /* the latest batch after an evaluation that main has allowed */
    bool has_end;
};

static struct tower_range here_of(const struct remote_towers *remote)
{
    return schedule_here(remote->spec.schedule);
}

static bool is_lead(const struct remote_towers *remote)
{
    return ranks_rank(remote->spec.ranks) == 0;
}

/* ---- decisions of rank 0 ---- */

uint32_t remote_towers_group_ahead(uint32_t report_every)
{
    return report_every > 1 ? report_every - 1 : 0;
}

/* The number of batches to allow beyond those that all towers have reported. Up to half of them are allowed late, and
 * the others still have to complete a group, and a tower to be ahead of the others by max_staleness. */
static uint64_t batches_ahead(const struct remote_towers *remote)
{
    const double ahead = remote->step_ns > 0 ? AHEAD_NS / remote->step_ns : 0;
    const uint64_t bounded = ahead < AHEAD_LEAST ? AHEAD_LEAST : ahead > AHEAD_MOST ? AHEAD_MOST : (uint64_t)ahead;
    return bounded + 2 * ((uint64_t)remote->spec.max_staleness + remote_towers_group_ahead(remote->spec.report_every));
}

static void send_decision(struct remote_towers *remote, enum message_kind kind, uint64_t number)
{
    (void)ranks_send_all(remote->spec.ranks, kind, &number, sizeof(number));
}

/* Returns `limit`, or the first batch below it that follows an evaluation and that main has not allowed yet. Lock
 * held. */
static uint64_t bound_by_evaluation(const struct remote_towers *remote, uint64_t limit)
{
    struct local_batch local;
    for (uint64_t number = remote->limit; number < limit && remote->spec.waits_for_main; number++)
        if (number > remote->allowed && number > 0 &&
            schedule_find(remote->spec.schedule, number - 1, 0, &local) == 0 && local.phase == PHASE_EVALUATE &&
            local.last_of_phase)
            return number;
    return limit;
}

/* Allow batches below `limit`, if these are at least `least` more than are allowed now. Where an evaluation bounds
 * them, after which main decides, even a single one is allowed. */
static void raise_limit(struct remote_towers *remote, uint64_t limit, uint64_t least)
{
    pthread_mutex_lock(&remote->lock);
    const uint64_t bound = bound_by_evaluation(remote, limit);
    const bool is_worth_it = bound >= remote->limit + (bound < limit ? 1 : least);
    if (!remote->has_end && is_worth_it) {
        remote->limit = bound;
        send_decision(remote, MESSAGE_LIMIT, bound);
        gate_allow(remote->spec.gate, bound - 1);
    }
    pthread_mutex_unlock(&remote->lock);
}

/* Allows as many batches as after a report, because the next report may be that of a group of batches. */
void remote_towers_allow(struct remote_towers *remote, uint64_t number)
{
    pthread_mutex_lock(&remote->lock);
    remote->allowed = number;
    const bool has_reached = remote->limit == number;
    pthread_mutex_unlock(&remote->lock);
    if (has_reached)
        raise_limit(remote, number + batches_ahead(remote), 1);
}

void remote_towers_mark(struct remote_towers *remote)
{
    pthread_mutex_lock(&remote->lock);
    send_decision(remote, MESSAGE_SNAPSHOT, remote->limit);
    gate_mark_batch(remote->spec.gate, remote->limit);
    pthread_mutex_unlock(&remote->lock);
}

static void end_run(struct remote_towers *remote)
{
    pthread_mutex_lock(&remote->lock);
    if (!remote->has_end) {
        remote->has_end = true;
        send_decision(remote, MESSAGE_END, remote->limit);
        gate_end_before(remote->spec.gate, remote->limit);
    }
    pthread_mutex_unlock(&remote->lock);
}

void remote_towers_request_stop(struct remote_towers *remote)
{
    const int number = signals_number();
    if (is_lead(remote))
        end_run(remote);
    else
        (void)ranks_send(remote->spec.ranks, 0, MESSAGE_STOP, &number, sizeof(number));
}

/* ---- decisions and signals that arrive; in the communication thread ---- */

static void obey(void *arg, const struct message *message)
{
    struct remote_towers *const remote = arg;
    uint64_t number = 0;
    if (message->kind == MESSAGE_STOP) {
        int signal;
        memcpy(&signal, message->data, sizeof(signal));
        signals_request(signal);
        return;
    }
    memcpy(&number, message->data, sizeof(number));
    switch (message->kind) {
    case MESSAGE_LIMIT: gate_allow(remote->spec.gate, number - 1); break;
    case MESSAGE_SNAPSHOT: gate_mark_batch(remote->spec.gate, number); break;
    case MESSAGE_END: gate_end_before(remote->spec.gate, number); break;
    default: assert(!"a message that has no handler");
    }
}

/* ---- reports ---- */

static int32_t parameter_of(const struct net *net, const char *name)
{
    for (uint32_t i = 0; name != NULL && i < net->parameter_count; i++)
        if (strcmp(net->parameters[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

static struct remote_report pack(const struct remote_towers *remote, const struct step_report *report)
{
    return (struct remote_report){
        .result = report->result,
        .times = report->times,
        .ended_ns = report->ended_ns - remote->begun_ns,
        .seen_ns = report->seen_ns - remote->begun_ns,
        .order = report->local.phase == PHASE_TRAIN ? account_order(report) : 0,
        .gradient_norm = report->gradient_norm,
        .staleness = report->staleness,
        .batches_found = report->batches_found,
        .slots_found = report->slots_found,
        .broken = parameter_of(remote->spec.net, report->broken),
    };
}

static void unpack(const struct remote_towers *remote, const struct remote_report *packed, struct step_report *report)
{
    const struct net *const net = remote->spec.net;
    report->result = packed->result;
    report->times = packed->times;
    report->ended_ns = packed->ended_ns + remote->begun_ns;
    report->seen_ns = packed->seen_ns + remote->begun_ns;
    report->order = packed->order;
    report->gradient_norm = packed->gradient_norm;
    report->staleness = packed->staleness;
    report->batches_found = packed->batches_found;
    report->slots_found = packed->slots_found;
    report->broken = packed->broken >= 0 ? net->parameters[packed->broken].name : NULL;
}

/* Set the latest step of training for heartbeats. */
static void note_step(const struct remote_towers *remote, const struct local_batch *local)
{
    if (local->phase == PHASE_TRAIN)
        ranks_set_step(remote->spec.ranks, local->step + 1);
}

/* Does the message of a batch contain a tower's answers? */
static bool has_answers(const struct local_batch *local)
{
    return local->phase == PHASE_EVALUATE && local->count > 0;
}

static size_t message_bytes(uint32_t towers, uint32_t answers)
{
    return towers * sizeof(struct remote_report) + answers * sizeof(struct answer);
}

static uint32_t group_batches(const struct remote_towers *remote)
{
    return remote->spec.report_every > 1 ? remote->spec.report_every : 1;
}

/* Does a group end with this batch? The answer is the same in all ranks: it depends on the batch, and on a mark that all
 * gates have before the batch may begin. */
static bool ends_group(const struct remote_towers *remote, const struct local_batch *local)
{
    const struct remote_towers_spec *const spec = &remote->spec;
    const bool is_interval = local->phase == PHASE_TRAIN && spec->interval_steps > 0 &&
                             (local->step + 1) % spec->interval_steps == 0;
    return (local->number + 1) % group_batches(remote) == 0 || local->last_of_phase || is_interval ||
           snapshot_wanted(&spec->snapshots, spec->gate, local) || snapshot_due(&spec->shown, local) ||
           snapshot_due(&spec->evaluated, local);
}

static int send_group(struct remote_towers *remote)
{
    const size_t bytes = remote->packed_bytes;
    remote->packed_bytes = 0;
    return bytes == 0 ? 0 : ranks_send(remote->spec.ranks, 0, MESSAGE_REPORT, remote->packed, bytes);
}

int remote_towers_send(struct remote_towers *remote, struct step_report *const *reports)
{
    const uint32_t towers = here_of(remote).count;
    struct remote_report *const packed = (struct remote_report *)(void *)(remote->packed + remote->packed_bytes);
    struct answer *const answers = (struct answer *)(void *)(packed + towers);
    uint32_t count = 0;
    for (uint32_t d = 0; d < towers; d++) {
        packed[d] = pack(remote, reports[d]);
        if (has_answers(&reports[d]->local))
            memcpy(answers + count, reports[d]->answers, reports[d]->local.count * sizeof(*answers));
        count += has_answers(&reports[d]->local) ? reports[d]->local.count : 0;
    }
    remote->packed_bytes += message_bytes(towers, count);
    note_step(remote, &reports[0]->local);
    return ends_group(remote, &reports[0]->local) ? send_group(remote) : 0;
}

void remote_towers_flush(struct remote_towers *remote)
{
    (void)send_group(remote);
}

/* Receive the next group of a rank, unless batches of the latest one are left. */
static int receive_group(struct remote_towers *remote, uint32_t rank)
{
    struct report_group *const group = &remote->groups[rank];
    if (group->message != NULL)
        return 0;
    group->used = 0;
    return ranks_receive(remote->spec.ranks, rank, MESSAGE_REPORT, &group->message);
}

/* Receive the reports of one rank. They are of batch `number`, because each rank reports all batches in order. */
static int receive_from(struct remote_towers *remote, uint32_t rank, uint64_t number)
{
    const uint32_t towers = here_of(remote).count;
    struct report_group *const group = &remote->groups[rank];
    const int rc = receive_group(remote, rank);
    if (rc != 0)
        return rc;
    const struct remote_report *const packed =
        (const struct remote_report *)(const void *)(group->message->data + group->used);
    const struct answer *const answers = (const struct answer *)(const void *)(packed + towers);
    uint32_t count = 0;
    for (uint32_t d = 0; d < towers; d++) {
        struct step_report *const report = &remote->reports[(rank - 1) * towers + d];
        (void)schedule_find(remote->spec.schedule, number, rank * towers + d, &report->local);
        unpack(remote, &packed[d], report);
        if (has_answers(&report->local))
            memcpy(report->answers, answers + count, report->local.count * sizeof(*answers));
        count += has_answers(&report->local) ? report->local.count : 0;
    }
    group->used += message_bytes(towers, count);
    assert(group->used <= group->message->bytes);
    if (group->used == group->message->bytes) {
        free(group->message);
        group->message = NULL;
    }
    return 0;
}

/* The batches of a group are reported together: measure the mean time of them. */
static void measure_steps(struct remote_towers *remote)
{
    const uint64_t now = clock_now_ns();
    const double took = (double)(now - remote->reported_ns) / remote->reported;
    remote->step_ns = remote->step_ns > 0 ? remote->step_ns + (took - remote->step_ns) / 8 : took;
    remote->reported_ns = now;
    remote->reported = 0;
}

static void allow_more(struct remote_towers *remote, uint64_t next)
{
    const uint64_t ahead = batches_ahead(remote);
    raise_limit(remote, next + ahead, (ahead + 1) / 2);
}

int remote_towers_receive(struct remote_towers *remote, uint64_t number, struct step_report **reports)
{
    const uint32_t here = here_of(remote).count;
    const uint32_t count = ranks_size(remote->spec.ranks);
    int rc = 0;
    for (uint32_t rank = 1; rank < count && rc == 0; rank++)
        rc = receive_from(remote, rank, number);
    if (rc != 0)
        return rc;
    remote->reported++;
    if (remote->groups[count - 1].message == NULL)
        measure_steps(remote);
    for (uint32_t d = here; d < remote->spec.schedule->towers; d++)
        reports[d] = &remote->reports[d - here];
    note_step(remote, &remote->reports[0].local);
    allow_more(remote, number + 1);
    return 0;
}

/* ---- problems and counts of the loaders ---- */

static void send_problem(void *arg, const struct found_problem *found)
{
    struct remote_towers *const remote = arg;
    (void)ranks_send(remote->spec.ranks, 0, MESSAGE_DAMAGE, found, sizeof(*found));
}

struct problem_relay remote_towers_relay(struct remote_towers *remote)
{
    return (struct problem_relay){ .pass = is_lead(remote) ? NULL : send_problem, .arg = remote };
}

static void add_problems_of(struct remote_towers *remote, uint32_t rank, struct loader *loader)
{
    struct message *message;
    while ((message = ranks_try_receive(remote->spec.ranks, rank, MESSAGE_DAMAGE)) != NULL) {
        assert(message->bytes == sizeof(struct found_problem));
        loader_add_problem(loader, (const struct found_problem *)(const void *)message->data);
        free(message);
    }
}

void remote_towers_add_problems(struct remote_towers *remote, struct loader *loader)
{
    for (uint32_t rank = 1; rank < ranks_size(remote->spec.ranks) && loader != NULL; rank++)
        add_problems_of(remote, rank, loader);
}

/* Add the counts of a rank's loader. Messages about its problems have arrived before them. False: a rank has failed. */
static bool add_counts_of(struct remote_towers *remote, uint32_t rank, struct loader_counts *sum)
{
    struct message *message;
    if (ranks_receive(remote->spec.ranks, rank, MESSAGE_COUNTS, &message) != 0)
        return false;
    const struct loader_counts *const counts = (const struct loader_counts *)(const void *)message->data;
    assert(message->bytes == sizeof(*counts));
    sum->records += counts->records;
    sum->bytes += counts->bytes;
    free(message);
    return true;
}

void remote_towers_end_loader(struct remote_towers *remote, struct loader *loader, struct loader_counts *counts)
{
    struct loader_counts now;
    if (!is_lead(remote)) {
        (void)ranks_send(remote->spec.ranks, 0, MESSAGE_COUNTS, counts, sizeof(*counts));
        return;
    }
    for (uint32_t rank = 1; rank < ranks_size(remote->spec.ranks) && add_counts_of(remote, rank, counts); rank++)
        continue;
    if (loader == NULL)
        return;
    remote_towers_add_problems(remote, loader);
    loader_count(loader, &now);
    counts->corrupt_records = now.corrupt_records;
    counts->decoder_warnings = now.decoder_warnings;
}

/* ---- opening and closing ---- */

void remote_towers_go(struct remote_towers *remote)
{
    remote->begun_ns = remote->reported_ns = clock_now_ns();
    if (is_lead(remote))
        raise_limit(remote, remote->spec.schedule->first + batches_ahead(remote), 1);
}

int remote_towers_open(struct remote_towers **remote_out, const struct remote_towers_spec *spec)
{
    struct remote_towers *const remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return -ENOMEM;
    remote->spec = *spec;
    /* This batch may follow an evaluation: main has already decided. */
    remote->limit = remote->allowed = spec->schedule->first;
    pthread_mutex_init(&remote->lock, NULL);
    const uint32_t towers = spec->schedule->towers, samples = schedule_local_max(spec->schedule);
    const size_t batch_bytes = message_bytes(here_of(remote).count, here_of(remote).count * samples);
    remote->packed = calloc(group_batches(remote), batch_bytes);
    remote->groups = calloc(ranks_size(spec->ranks), sizeof(*remote->groups));
    remote->reports = calloc(towers, sizeof(*remote->reports));
    remote->answers = calloc((size_t)towers * samples + 1, sizeof(*remote->answers));
    if (remote->packed == NULL || remote->groups == NULL || remote->reports == NULL || remote->answers == NULL) {
        remote_towers_close(remote);
        return -ENOMEM;
    }
    for (uint32_t d = 0; d < towers; d++)
        remote->reports[d].answers = remote->answers + (size_t)d * samples;
    ranks_set_handler(spec->ranks, obey, remote);
    *remote_out = remote;
    return 0;
}

void remote_towers_close(struct remote_towers *remote)
{
    if (remote == NULL)
        return;
    ranks_set_handler(remote->spec.ranks, NULL, NULL);
    pthread_mutex_destroy(&remote->lock);
    for (uint32_t rank = 0; rank < ranks_size(remote->spec.ranks) && remote->groups != NULL; rank++)
        free(remote->groups[rank].message);
    free(remote->groups);
    free(remote->reports);
    free(remote->answers);
    free(remote->packed);
    free(remote);
}
