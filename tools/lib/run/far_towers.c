/* The towers of other ranks. Rank 0 allows some batches more than all ranks have reported: enough that no tower waits
 * for its permission, and few enough that the run ends soon after it was asked to. */
#include "tools/lib/run/far_towers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "tools/lib/run/account.h"
#include "tools/lib/signals.h"

#define AHEAD_LEAST 2u                  /* batches that are allowed beyond those reported */
#define AHEAD_MOST 64u
#define AHEAD_NS 150000000u             /* otherwise as many as take this long */

/* A report on its way: what main needs of struct step_report. Times of the host are counted from far_go. */
struct far_report {
    struct backend_result result;
    struct step_times times;
    uint64_t ended_ns, seen_ns, order;
    double gradient_norm;
    uint32_t staleness, batches_found, slots_found;
    int32_t broken;                     /* a parameter of the net; -1: none */
};

struct far_towers {
    struct far_spec spec;
    uint64_t begun_ns;                  /* far_go */
    struct step_report *reports;        /* [other tower of the run], of the latest batch */
    struct far_report *packed;          /* [tower of this process] */
    uint64_t followed_ns;               /* when the latest batch was reported */
    double step_ns;                     /* a moving average; 0: not known yet */
    pthread_mutex_t lock;               /* of what follows */
    uint64_t limit;                     /* batches below it are allowed */
    uint64_t allowed;                   /* by main, of those that begin after an evaluation */
    bool has_end;
};

static struct tower_range here_of(const struct far_towers *far)
{
    return schedule_here(far->spec.schedule);
}

static bool is_lead(const struct far_towers *far)
{
    return ranks_rank(far->spec.ranks) == 0;
}

/* ---- what rank 0 says ---- */

static void say(struct far_towers *far, enum mail_kind kind, uint64_t number)
{
    (void)ranks_send_all(far->spec.ranks, kind, &number, sizeof(number));
}

/* The least of `limit` and the batch that follows an evaluation after which main has not decided yet. Lock held. */
static uint64_t bound_by_evaluation(const struct far_towers *far, uint64_t limit)
{
    struct batch_slice slice;
    for (uint64_t number = far->limit; number < limit && far->spec.waits_for_main; number++)
        if (number > far->allowed && number > 0 && schedule_find(far->spec.schedule, number - 1, 0, &slice) == 0 &&
            slice.phase == PHASE_EVALUATE && slice.last_of_phase)
            return number;
    return limit;
}

/* Allow batches below `limit`, if that are at least `least` more; those up to an evaluation that main has to decide on
 * in any case. */
static void raise_limit(struct far_towers *far, uint64_t limit, uint64_t least)
{
    pthread_mutex_lock(&far->lock);
    const uint64_t bound = bound_by_evaluation(far, limit);
    const bool is_worth_it = bound >= far->limit + (bound < limit ? 1 : least);
    if (!far->has_end && is_worth_it) {
        far->limit = bound;
        say(far, MAIL_LIMIT, bound);
        gate_allow(far->spec.gate, bound - 1);
    }
    pthread_mutex_unlock(&far->lock);
}

void far_allow(struct far_towers *far, uint64_t number)
{
    pthread_mutex_lock(&far->lock);
    far->allowed = number;
    const bool has_reached = far->limit == number;
    pthread_mutex_unlock(&far->lock);
    if (has_reached)
        raise_limit(far, number + 1, 1);
}

void far_mark(struct far_towers *far)
{
    pthread_mutex_lock(&far->lock);
    say(far, MAIL_MARK, far->limit);
    gate_mark_batch(far->spec.gate, far->limit);
    pthread_mutex_unlock(&far->lock);
}

static void end_run(struct far_towers *far)
{
    pthread_mutex_lock(&far->lock);
    if (!far->has_end) {
        far->has_end = true;
        say(far, MAIL_END, far->limit);
        gate_end_before(far->spec.gate, far->limit);
    }
    pthread_mutex_unlock(&far->lock);
}

void far_request_stop(struct far_towers *far)
{
    const int number = signals_number();
    if (is_lead(far))
        end_run(far);
    else
        (void)ranks_send(far->spec.ranks, 0, MAIL_STOP, &number, sizeof(number));
}

/* ---- what the others hear; in the communication thread ---- */

static void handle(void *arg, const struct mail *mail)
{
    struct far_towers *const far = arg;
    uint64_t number = 0;
    if (mail->kind == MAIL_STOP) {
        int signal;
        memcpy(&signal, mail->data, sizeof(signal));
        signals_request(signal);
        return;
    }
    memcpy(&number, mail->data, sizeof(number));
    switch (mail->kind) {
    case MAIL_LIMIT: gate_allow(far->spec.gate, number - 1); break;
    case MAIL_MARK: gate_mark_batch(far->spec.gate, number); break;
    case MAIL_END: gate_end_before(far->spec.gate, number); break;
    default: assert(!"no other mail is handled");
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

static struct far_report pack(const struct far_towers *far, const struct step_report *report)
{
    return (struct far_report){
        .result = report->result,
        .times = report->times,
        .ended_ns = report->ended_ns - far->begun_ns,
        .seen_ns = report->seen_ns - far->begun_ns,
        .order = report->slice.phase == PHASE_TRAIN ? account_order(report) : 0,
        .gradient_norm = report->gradient_norm,
        .staleness = report->staleness,
        .batches_found = report->batches_found,
        .slots_found = report->slots_found,
        .broken = parameter_of(far->spec.net, report->broken),
    };
}

static void unpack(const struct far_towers *far, const struct far_report *packed, struct step_report *report)
{
    const struct net *const net = far->spec.net;
    report->result = packed->result;
    report->times = packed->times;
    report->ended_ns = packed->ended_ns + far->begun_ns;
    report->seen_ns = packed->seen_ns + far->begun_ns;
    report->order = packed->order;
    report->gradient_norm = packed->gradient_norm;
    report->staleness = packed->staleness;
    report->batches_found = packed->batches_found;
    report->slots_found = packed->slots_found;
    report->broken = packed->broken >= 0 ? net->parameters[packed->broken].name : NULL;
}

/* The step of training; in an evaluation, the one before it. */
static void note_step(const struct far_towers *far, const struct batch_slice *slice)
{
    if (slice->phase == PHASE_TRAIN)
        ranks_at_step(far->spec.ranks, slice->step + 1);
}

int far_send(struct far_towers *far, struct step_report *const *reports)
{
    const uint32_t towers = here_of(far).count;
    for (uint32_t d = 0; d < towers; d++)
        far->packed[d] = pack(far, reports[d]);
    note_step(far, &reports[0]->slice);
    return ranks_send(far->spec.ranks, 0, MAIL_REPORT, far->packed, towers * sizeof(*far->packed));
}

/* The reports of one rank: those of this batch, as all ranks report all batches in order. */
static int receive_from(struct far_towers *far, uint32_t rank, uint64_t number)
{
    const uint32_t towers = here_of(far).count;
    struct mail *mail;
    const int rc = ranks_receive(far->spec.ranks, rank, MAIL_REPORT, &mail);
    if (rc != 0)
        return rc;
    assert(mail->bytes == towers * sizeof(struct far_report));
    const struct far_report *const packed = (const struct far_report *)(const void *)mail->data;
    for (uint32_t d = 0; d < towers; d++) {
        struct step_report *const report = &far->reports[(rank - 1) * towers + d];
        (void)schedule_find(far->spec.schedule, number, rank * towers + d, &report->slice);
        unpack(far, &packed[d], report);
    }
    free(mail);
    return 0;
}

/* How many batches beyond those reported? */
static uint64_t batches_ahead(const struct far_towers *far)
{
    const double ahead = far->step_ns > 0 ? AHEAD_NS / far->step_ns : 0;
    return ahead < AHEAD_LEAST ? AHEAD_LEAST : ahead > AHEAD_MOST ? AHEAD_MOST : (uint64_t)ahead;
}

static void follow(struct far_towers *far, uint64_t next)
{
    const uint64_t now = clock_now_ns();
    const double took = (double)(now - far->followed_ns);
    far->step_ns = far->step_ns > 0 ? far->step_ns + (took - far->step_ns) / 8 : took;
    far->followed_ns = now;
    const uint64_t ahead = batches_ahead(far);
    raise_limit(far, next + ahead, (ahead + 1) / 2);
}

int far_receive(struct far_towers *far, uint64_t number, struct step_report **reports)
{
    const uint32_t here = here_of(far).count;
    int rc = 0;
    for (uint32_t rank = 1; rank < ranks_size(far->spec.ranks) && rc == 0; rank++)
        rc = receive_from(far, rank, number);
    if (rc != 0)
        return rc;
    for (uint32_t d = here; d < far->spec.schedule->towers; d++)
        reports[d] = &far->reports[d - here];
    note_step(far, &far->reports[0].slice);
    follow(far, number + 1);
    return 0;
}

/* ---- damaged records, and what the loaders counted ---- */

static void pass_problem(void *arg, const struct found_problem *found)
{
    struct far_towers *const far = arg;
    (void)ranks_send(far->spec.ranks, 0, MAIL_DAMAGE, found, sizeof(*found));
}

struct problem_relay far_relay(struct far_towers *far)
{
    return (struct problem_relay){ .pass = is_lead(far) ? NULL : pass_problem, .arg = far };
}

static void add_problems_of(struct far_towers *far, uint32_t rank, struct loader *loader)
{
    struct mail *mail;
    while ((mail = ranks_try_receive(far->spec.ranks, rank, MAIL_DAMAGE)) != NULL) {
        assert(mail->bytes == sizeof(struct found_problem));
        loader_add_problem(loader, (const struct found_problem *)(const void *)mail->data);
        free(mail);
    }
}

void far_add_problems(struct far_towers *far, struct loader *loader)
{
    for (uint32_t rank = 1; rank < ranks_size(far->spec.ranks) && loader != NULL; rank++)
        add_problems_of(far, rank, loader);
}

/* Its mail about damage came before. False: a rank has failed. */
static bool add_counts_of(struct far_towers *far, uint32_t rank, struct loader_counts *sum)
{
    struct mail *mail;
    if (ranks_receive(far->spec.ranks, rank, MAIL_COUNTS, &mail) != 0)
        return false;
    const struct loader_counts *const counts = (const struct loader_counts *)(const void *)mail->data;
    assert(mail->bytes == sizeof(*counts));
    sum->records += counts->records;
    sum->bytes += counts->bytes;
    free(mail);
    return true;
}

void far_end_loader(struct far_towers *far, struct loader *loader, struct loader_counts *counts)
{
    struct loader_counts now;
    if (!is_lead(far)) {
        (void)ranks_send(far->spec.ranks, 0, MAIL_COUNTS, counts, sizeof(*counts));
        return;
    }
    for (uint32_t rank = 1; rank < ranks_size(far->spec.ranks) && add_counts_of(far, rank, counts); rank++)
        continue;
    if (loader == NULL)
        return;
    far_add_problems(far, loader);
    loader_count(loader, &now);
    counts->corrupt_records = now.corrupt_records;
    counts->decoder_warnings = now.decoder_warnings;
}

/* ---- opening and closing ---- */

void far_go(struct far_towers *far)
{
    far->begun_ns = far->followed_ns = clock_now_ns();
    if (is_lead(far))
        raise_limit(far, far->spec.schedule->first + AHEAD_LEAST, 1);
}

int far_open(struct far_towers **far_out, const struct far_spec *spec)
{
    struct far_towers *const far = calloc(1, sizeof(*far));
    if (far == NULL)
        return -ENOMEM;
    far->spec = *spec;
    far->limit = far->allowed = spec->schedule->first;      /* an evaluation before it was decided on */
    pthread_mutex_init(&far->lock, NULL);
    far->packed = calloc(here_of(far).count, sizeof(*far->packed));
    far->reports = calloc(spec->schedule->towers, sizeof(*far->reports));
    if (far->packed == NULL || far->reports == NULL) {
        far_close(far);
        return -ENOMEM;
    }
    ranks_set_handler(spec->ranks, handle, far);
    *far_out = far;
    return 0;
}

void far_close(struct far_towers *far)
{
    if (far == NULL)
        return;
    ranks_set_handler(far->spec.ranks, NULL, NULL);
    pthread_mutex_destroy(&far->lock);
    free(far->reports);
    free(far->packed);
    free(far);
}
