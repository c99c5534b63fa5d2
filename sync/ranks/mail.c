/* Mail between rank 0 and the others. Any thread queues what it sends; the communication thread begins the messages,
 * and keeps one receive posted for every peer. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sync/ranks/ranks_private.h"

#define FLUSH_FAILED_S 1        /* a rank that has failed may take no mail any more */

/* ---- sending ---- */

static struct outgoing *outgoing_new(uint32_t to, enum mail_kind kind, const void *data, size_t bytes)
{
    const bool is_long = bytes > MAIL_SHORT_BYTES;
    struct outgoing *const out = calloc(1, sizeof(*out) + (is_long ? bytes : 0));
    if (out == NULL)
        return NULL;
    out->to = to;
    out->has_passed[1] = !is_long;
    out->envelope.kind = kind;
    out->envelope.bytes = bytes;
    if (bytes > 0)
        memcpy(is_long ? out->data : out->envelope.data, data, bytes);
    return out;
}

/* There is no memory for mail to or from a peer. The receiver may wait for it without end, so the run has to end. */
static void lose_mail(struct ranks *ranks, const char *preposition, uint32_t peer)
{
    rank_watch_fail(ranks, EXIT_CODE_MEMORY, "mail %s %s: %s", preposition, ranks_name(ranks, peer), strerror(ENOMEM));
    pthread_mutex_lock(&ranks->lock);
    ranks->lacks_mail = true;
    pthread_mutex_unlock(&ranks->lock);
}

int ranks_send(struct ranks *ranks, uint32_t to, enum mail_kind kind, const void *data, size_t bytes)
{
    assert(bytes <= MPI_MODULE_MESSAGE_MAX && to >= peers_first(ranks) && to < peers_end(ranks));
    struct outgoing *const out = outgoing_new(to, kind, data, bytes);
    if (out == NULL) {
        if (kind != MAIL_BEAT)
            lose_mail(ranks, "to", to);
        return -ENOMEM;
    }
    pthread_mutex_lock(&ranks->lock);
    const bool is_lost = ranks->peers[to].is_silent;
    if (!is_lost) {
        *ranks->out_end = out;
        ranks->out_end = &out->next;
        ranks->out_count++;
    }
    pthread_mutex_unlock(&ranks->lock);
    if (is_lost)
        free(out);
    else
        doorbells_ring(ranks->doorbells, ranks->launcher.rank);
    return is_lost ? -ECANCELED : 0;
}

int ranks_send_all(struct ranks *ranks, enum mail_kind kind, const void *data, size_t bytes)
{
    int rc = 0;
    for (uint32_t rank = peers_first(ranks); rank < peers_end(ranks); rank++) {
        const int sent = ranks_send(ranks, rank, kind, data, bytes);
        if (rc == 0)
            rc = sent;
    }
    return rc;
}

int ranks_flush(struct ranks *ranks)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FLUSH_FAILED_S;
    int rc = 0;
    pthread_mutex_lock(&ranks->lock);
    while ((ranks->out_count > 0 || ranks->is_failing) && rc == 0)
        if (!ranks->has_failed)
            pthread_cond_wait(&ranks->changed, &ranks->lock);
        else
            rc = pthread_cond_timedwait(&ranks->changed, &ranks->lock, &until);
    pthread_mutex_unlock(&ranks->lock);
    return rc == 0 ? 0 : -ECANCELED;
}

static int begin_outgoing(struct ranks *ranks, struct outgoing *out)
{
    const struct mpi_module *const module = ranks->module;
    out->envelope.is_announced = doorbells_reach(ranks->doorbells, out->to);
    if (out->envelope.is_announced)
        doorbells_announce_mail(ranks->doorbells, out->to);
    int rc = module->send(&out->envelope, sizeof(out->envelope), out->to, MAIL_TAG, &out->requests[0]);
    if (rc == 0 && !out->has_passed[1])
        rc = module->send(out->data, out->envelope.bytes, out->to, MAIL_DATA_TAG, &out->requests[1]);
    if (rc == 0 && out->envelope.is_announced)
        doorbells_ring(ranks->doorbells, out->to);
    return rc;
}

/* All that was queued since the last call. */
static struct outgoing *take_queued(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    struct outgoing *const first = ranks->out_first;
    ranks->out_first = NULL;
    ranks->out_end = &ranks->out_first;
    pthread_mutex_unlock(&ranks->lock);
    return first;
}

static int begin_queued(struct ranks *ranks, struct outgoing **flying, bool *moved_out, uint32_t *peer_out)
{
    struct outgoing *queued = take_queued(ranks), **end = flying;
    int rc = 0;
    while (*end != NULL)
        end = &(*end)->next;
    *end = queued;
    for (; queued != NULL && rc == 0; queued = queued->next) {
        *peer_out = queued->to;
        *moved_out = true;
        rc = begin_outgoing(ranks, queued);
    }
    return rc;
}

static void forget_outgoing(struct ranks *ranks, struct outgoing *out)
{
    pthread_mutex_lock(&ranks->lock);
    if (out->envelope.kind == MAIL_BEAT)
        ranks->peers[out->to].has_beat_queued = false;
    ranks->out_count--;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
    free(out);
}

static int test_flying(struct ranks *ranks, struct outgoing **flying, bool *moved_out, uint32_t *peer_out)
{
    struct outgoing **link = flying;
    while (*link != NULL) {
        struct outgoing *const out = *link;
        *peer_out = out->to;
        for (int part = 0; part < 2; part++) {
            const int rc = out->has_passed[part] ? 0 : ranks->module->test(&out->requests[part], &out->has_passed[part]);
            if (rc != 0)
                return rc;
        }
        if (!out->has_passed[0] || !out->has_passed[1]) {
            link = &out->next;
            continue;
        }
        *link = out->next;
        *moved_out = true;
        forget_outgoing(ranks, out);
    }
    return 0;
}

/* ---- receiving ---- */

static struct mail *mail_new(uint32_t from, const struct envelope *envelope)
{
    struct mail *const mail = malloc(sizeof(*mail) + envelope->bytes);
    if (mail == NULL)
        return NULL;
    mail->next = NULL;
    mail->from = from;
    mail->kind = envelope->kind;
    mail->bytes = envelope->bytes;
    if (envelope->bytes <= MAIL_SHORT_BYTES)
        memcpy(mail->data, envelope->data, envelope->bytes);
    return mail;
}

static void call_handler(struct ranks *ranks, struct mail *mail)
{
    pthread_mutex_lock(&ranks->lock);
    void (*const handle)(void *arg, const struct mail *mail) = ranks->handle;
    void *const arg = ranks->handle_arg;
    ranks->is_handling = handle != NULL;
    pthread_mutex_unlock(&ranks->lock);
    if (handle == NULL)
        return;
    handle(arg, mail);
    pthread_mutex_lock(&ranks->lock);
    ranks->is_handling = false;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

static void keep(struct ranks *ranks, struct mail *mail)
{
    struct peer *const peer = &ranks->peers[mail->from];
    pthread_mutex_lock(&ranks->lock);
    *peer->end = mail;
    peer->end = &mail->next;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

static void deliver(struct ranks *ranks, struct mail *mail)
{
    if (mail->kind >= MAIL_HANDLED) {
        keep(ranks, mail);
        return;
    }
    if (mail->kind == MAIL_BEAT)
        rank_watch_take_beat(ranks, mail->from, (const struct beat *)(const void *)mail->data);
    else if (mail->kind == MAIL_FAILURE)
        rank_watch_take_failure(ranks, mail->from, (const struct failure *)(const void *)mail->data);
    else
        call_handler(ranks, mail);
    free(mail);
}

static int await_envelope(struct ranks *ranks, uint32_t rank)
{
    struct peer *const peer = &ranks->peers[rank];
    peer->incoming = NULL;
    return ranks->module->receive(&peer->envelope, sizeof(peer->envelope), rank, MAIL_TAG, &peer->request);
}

int mail_begin(struct ranks *ranks, uint32_t *peer_out)
{
    int rc = 0;
    for (uint32_t rank = peers_first(ranks); rank < peers_end(ranks) && rc == 0; rank++) {
        *peer_out = rank;
        rc = await_envelope(ranks, rank);
    }
    return rc;
}

static int deliver_and_await(struct ranks *ranks, uint32_t rank, struct mail *mail)
{
    ranks->mail_taken += ranks->peers[rank].envelope.is_announced;
    deliver(ranks, mail);
    return await_envelope(ranks, rank);
}

/* The message that was awaited has come: deliver the mail, or begin to receive its data. */
static int take_message(struct ranks *ranks, uint32_t rank)
{
    struct peer *const peer = &ranks->peers[rank];
    if (peer->incoming != NULL)
        return deliver_and_await(ranks, rank, peer->incoming);
    struct mail *const mail = mail_new(rank, &peer->envelope);
    if (mail == NULL) {
        lose_mail(ranks, "from", rank);
        return 0;       /* the request has passed, so the next test tries again */
    }
    if (mail->bytes <= MAIL_SHORT_BYTES)
        return deliver_and_await(ranks, rank, mail);
    peer->incoming = mail;
    return ranks->module->receive(mail->data, mail->bytes, rank, MAIL_DATA_TAG, &peer->request);
}

int mail_advance(struct ranks *ranks, struct outgoing **flying, bool *moved_out, uint32_t *peer_out)
{
    int rc = begin_queued(ranks, flying, moved_out, peer_out);
    if (rc == 0)
        rc = test_flying(ranks, flying, moved_out, peer_out);
    for (uint32_t rank = peers_first(ranks); rank < peers_end(ranks) && rc == 0; rank++) {
        bool has_come = false;
        *peer_out = rank;
        rc = ranks->module->test(&ranks->peers[rank].request, &has_come);
        if (rc == 0 && has_come) {
            *moved_out = true;
            rc = take_message(ranks, rank);
        }
    }
    return rc;
}

void mail_end(struct ranks *ranks)
{
    for (uint32_t rank = peers_first(ranks); rank < peers_end(ranks); rank++)
        ranks->module->cancel(&ranks->peers[rank].request);
}

/* The first mail of that kind, taken out of the list; NULL: there is none. Lock held. */
static struct mail *find_mail(struct peer *peer, enum mail_kind kind)
{
    struct mail **link = &peer->first;
    while (*link != NULL && (*link)->kind != kind)
        link = &(*link)->next;
    struct mail *const mail = *link;
    if (mail == NULL)
        return NULL;
    *link = mail->next;
    if (peer->end == &mail->next)
        peer->end = link;
    mail->next = NULL;
    return mail;
}

/* After a failure ranks still meet, so that none leaves before rank 0 has written. */
static bool is_hopeless(const struct ranks *ranks, const struct peer *peer, enum mail_kind kind)
{
    return peer->is_silent || (ranks->has_failed && kind != MAIL_MEETING);
}

int ranks_receive(struct ranks *ranks, uint32_t from, enum mail_kind kind, struct mail **mail_out)
{
    struct peer *const peer = &ranks->peers[from];
    assert(kind >= MAIL_HANDLED && from >= peers_first(ranks) && from < peers_end(ranks));
    pthread_mutex_lock(&ranks->lock);
    struct mail *mail;
    while ((mail = find_mail(peer, kind)) == NULL && !is_hopeless(ranks, peer, kind))
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    pthread_mutex_unlock(&ranks->lock);
    *mail_out = mail;
    return mail != NULL ? 0 : -ECANCELED;
}

struct mail *ranks_try_receive(struct ranks *ranks, uint32_t from, enum mail_kind kind)
{
    pthread_mutex_lock(&ranks->lock);
    struct mail *const mail = find_mail(&ranks->peers[from], kind);
    pthread_mutex_unlock(&ranks->lock);
    return mail;
}

void ranks_set_handler(struct ranks *ranks, void (*handle)(void *arg, const struct mail *mail), void *arg)
{
    pthread_mutex_lock(&ranks->lock);
    while (ranks->is_handling)
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    ranks->handle = handle;
    ranks->handle_arg = arg;
    pthread_mutex_unlock(&ranks->lock);
}
