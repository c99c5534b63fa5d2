/* Messages between rank 0 and other ranks. Any thread queues messages. The communication thread sends them, and always
 * has one receive posted for every peer. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sync/ranks/ranks_private.h"

#define FLUSH_FAILED_S 1        /* the receiver may have failed, and then receives nothing */

/* ---- sending ---- */

static struct outgoing *outgoing_new(uint32_t to, enum message_kind kind, const struct message_part *parts,
                                     uint32_t count, size_t bytes)
{
    const bool is_long = bytes > EAGER_BYTES;
    struct outgoing *const out = calloc(1, sizeof(*out) + (is_long ? bytes : 0));
    if (out == NULL)
        return NULL;
    out->to = to;
    out->has_passed[1] = !is_long;
    out->envelope.kind = kind;
    out->envelope.bytes = bytes;
    unsigned char *to_data = is_long ? out->data : out->envelope.data;
    for (uint32_t i = 0; i < count; to_data += parts[i++].bytes)
        if (parts[i].bytes > 0)
            memcpy(to_data, parts[i].data, parts[i].bytes);
    return out;
}

/* Fail after a message to or from a peer was lost for lack of memory: its receiver may wait for it forever. */
static void lose_message(struct ranks *ranks, const char *preposition, uint32_t peer)
{
    ranks_fail(ranks, EXIT_CODE_MEMORY, "message %s %s: %s", preposition, ranks_name(ranks, peer), strerror(ENOMEM));
    pthread_mutex_lock(&ranks->lock);
    ranks->has_lost_message = true;
    pthread_mutex_unlock(&ranks->lock);
}

int ranks_send(struct ranks *ranks, uint32_t to, enum message_kind kind, const void *data, size_t bytes)
{
    return ranks_send_parts(ranks, to, kind, &(struct message_part){ data, bytes }, 1);
}

int ranks_send_parts(struct ranks *ranks, uint32_t to, enum message_kind kind, const struct message_part *parts,
                     uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += parts[i].bytes;
    assert(bytes <= MPI_MODULE_MESSAGE_MAX && to >= peers_first(ranks) && to < peers_end(ranks));
    struct outgoing *const out = outgoing_new(to, kind, parts, count, bytes);
    if (out == NULL) {
        if (kind != MESSAGE_HEARTBEAT)
            lose_message(ranks, "to", to);
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
        wakeup_send(ranks->wakeup, ranks->launcher.rank, 0);
    return is_lost ? -ECANCELED : 0;
}

int ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes)
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

static int start_sending(struct ranks *ranks, struct outgoing *out)
{
    const struct mpi_module *const module = ranks->module;
    out->envelope.is_announced = wakeup_reaches(ranks->wakeup, out->to);
    if (out->envelope.is_announced)
        wakeup_announce(ranks->wakeup, out->to);
    int rc = module->send(&out->envelope, sizeof(out->envelope), out->to, ENVELOPE_TAG, &out->requests[0]);
    if (rc == 0 && !out->has_passed[1])
        rc = module->send(out->data, out->envelope.bytes, out->to, PAYLOAD_TAG, &out->requests[1]);
    if (rc == 0 && out->envelope.is_announced)
        wakeup_send(ranks->wakeup, out->to, 0);
    return rc;
}

/* Remove and return all messages that were queued since the last call. */
static struct outgoing *take_queued(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    struct outgoing *const first = ranks->out_first;
    ranks->out_first = NULL;
    ranks->out_end = &ranks->out_first;
    pthread_mutex_unlock(&ranks->lock);
    return first;
}

static int send_queued(struct ranks *ranks, struct outgoing **in_flight, bool *moved_out, uint32_t *peer_out)
{
    struct outgoing *queued = take_queued(ranks), **end = in_flight;
    int rc = 0;
    while (*end != NULL)
        end = &(*end)->next;
    *end = queued;
    for (; queued != NULL && rc == 0; queued = queued->next) {
        *peer_out = queued->to;
        *moved_out = true;
        rc = start_sending(ranks, queued);
    }
    return rc;
}

static void release_outgoing(struct ranks *ranks, struct outgoing *out)
{
    pthread_mutex_lock(&ranks->lock);
    if (out->envelope.kind == MESSAGE_HEARTBEAT)
        ranks->peers[out->to].has_heartbeat_queued = false;
    ranks->out_count--;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
    free(out);
}

static int test_sends(struct ranks *ranks, struct outgoing **in_flight, bool *moved_out, uint32_t *peer_out)
{
    struct outgoing **link = in_flight;
    while (*link != NULL) {
        struct outgoing *const out = *link;
        *peer_out = out->to;
        for (int part = 0; part < 2; part++) {
            bool *const has_passed = &out->has_passed[part];
            const int rc = *has_passed ? 0 : ranks->module->test(&out->requests[part], has_passed);
            if (rc != 0)
                return rc;
        }
        if (!out->has_passed[0] || !out->has_passed[1]) {
            link = &out->next;
            continue;
        }
        *link = out->next;
        *moved_out = true;
        release_outgoing(ranks, out);
    }
    return 0;
}

/* ---- receiving ---- */

static struct message *message_new(uint32_t from, const struct envelope *envelope)
{
    struct message *const message = malloc(sizeof(*message) + envelope->bytes);
    if (message == NULL)
        return NULL;
    message->next = NULL;
    message->from = from;
    message->kind = envelope->kind;
    message->bytes = envelope->bytes;
    if (envelope->bytes <= EAGER_BYTES)
        memcpy(message->data, envelope->data, envelope->bytes);
    return message;
}

static void call_handler(struct ranks *ranks, struct message *message)
{
    pthread_mutex_lock(&ranks->lock);
    void (*const handle)(void *arg, const struct message *message) = ranks->handle;
    void *const arg = ranks->handle_arg;
    ranks->is_handling = handle != NULL;
    pthread_mutex_unlock(&ranks->lock);
    if (handle == NULL)
        return;
    handle(arg, message);
    pthread_mutex_lock(&ranks->lock);
    ranks->is_handling = false;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

static void store(struct ranks *ranks, struct message *message)
{
    struct peer *const peer = &ranks->peers[message->from];
    pthread_mutex_lock(&ranks->lock);
    *peer->end = message;
    peer->end = &message->next;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

static void deliver(struct ranks *ranks, struct message *message)
{
    if (message->kind >= MESSAGE_HANDLED) {
        store(ranks, message);
        return;
    }
    if (message->kind == MESSAGE_HEARTBEAT)
        rank_heartbeat_receive(ranks, message->from, (const struct rank_heartbeat *)(const void *)message->data);
    else if (message->kind == MESSAGE_FAILURE)
        ranks_receive_failure(ranks, message->from, (const struct failure *)(const void *)message->data);
    else
        call_handler(ranks, message);
    free(message);
}

static int receive_envelope(struct ranks *ranks, uint32_t rank)
{
    struct peer *const peer = &ranks->peers[rank];
    peer->incoming = NULL;
    return ranks->module->receive(&peer->envelope, sizeof(peer->envelope), rank, ENVELOPE_TAG, &peer->request);
}

int messages_begin(struct ranks *ranks, uint32_t *peer_out)
{
    int rc = 0;
    for (uint32_t rank = peers_first(ranks); rank < peers_end(ranks) && rc == 0; rank++) {
        *peer_out = rank;
        rc = receive_envelope(ranks, rank);
    }
    return rc;
}

static int deliver_and_receive(struct ranks *ranks, uint32_t rank, struct message *message)
{
    ranks->announced_received += ranks->peers[rank].envelope.is_announced;
    deliver(ranks, message);
    return receive_envelope(ranks, rank);
}

/* An envelope or a payload has arrived: deliver the message, or first receive its payload. */
static int handle_arrival(struct ranks *ranks, uint32_t rank)
{
    struct peer *const peer = &ranks->peers[rank];
    if (peer->incoming != NULL)
        return deliver_and_receive(ranks, rank, peer->incoming);
    struct message *const message = message_new(rank, &peer->envelope);
    if (message == NULL) {
        lose_message(ranks, "from", rank);
        return 0;       /* tried again at the next test, as the request stays complete */
    }
    if (message->bytes <= EAGER_BYTES)
        return deliver_and_receive(ranks, rank, message);
    peer->incoming = message;
    return ranks->module->receive(message->data, message->bytes, rank, PAYLOAD_TAG, &peer->request);
}

int messages_advance(struct ranks *ranks, struct outgoing **in_flight, bool *moved_out, uint32_t *peer_out)
{
    int rc = send_queued(ranks, in_flight, moved_out, peer_out);
    if (rc == 0)
        rc = test_sends(ranks, in_flight, moved_out, peer_out);
    for (uint32_t rank = peers_first(ranks); rank < peers_end(ranks) && rc == 0; rank++) {
        bool has_arrived = false;
        *peer_out = rank;
        rc = ranks->module->test(&ranks->peers[rank].request, &has_arrived);
        if (rc == 0 && has_arrived) {
            *moved_out = true;
            rc = handle_arrival(ranks, rank);
        }
    }
    return rc;
}

void messages_end(struct ranks *ranks)
{
    for (uint32_t rank = peers_first(ranks); rank < peers_end(ranks); rank++)
        ranks->module->cancel(&ranks->peers[rank].request);
}

/* Remove the first message of that kind from the list; NULL: there is none. Lock held. */
static struct message *find_message(struct peer *peer, enum message_kind kind)
{
    struct message **link = &peer->first;
    while (*link != NULL && (*link)->kind != kind)
        link = &(*link)->next;
    struct message *const message = *link;
    if (message == NULL)
        return NULL;
    *link = message->next;
    if (peer->end == &message->next)
        peer->end = link;
    message->next = NULL;
    return message;
}

/* After a failure only messages of MESSAGE_COLLECTIVE may still arrive, because ranks still synchronise so that none
 * ends before rank 0 has written its results. */
static bool cannot_arrive(const struct ranks *ranks, const struct peer *peer, enum message_kind kind)
{
    return peer->is_silent || (ranks->has_failed && kind != MESSAGE_COLLECTIVE);
}

int ranks_receive_until(struct ranks *ranks, uint32_t from, enum message_kind kind, const atomic_bool *has_ended,
                        struct message **message_out)
{
    struct peer *const peer = &ranks->peers[from];
    assert(kind >= MESSAGE_HANDLED && from >= peers_first(ranks) && from < peers_end(ranks));
    pthread_mutex_lock(&ranks->lock);
    struct message *message;
    while ((message = find_message(peer, kind)) == NULL && !cannot_arrive(ranks, peer, kind) && !atomic_load(has_ended))
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    pthread_mutex_unlock(&ranks->lock);
    *message_out = message;
    return message != NULL ? 0 : -ECANCELED;
}

int ranks_receive(struct ranks *ranks, uint32_t from, enum message_kind kind, struct message **message_out)
{
    static const atomic_bool never = false;
    return ranks_receive_until(ranks, from, kind, &never, message_out);
}

void ranks_notify(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->lock);
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->lock);
}

struct message *ranks_try_receive(struct ranks *ranks, uint32_t from, enum message_kind kind)
{
    pthread_mutex_lock(&ranks->lock);
    struct message *const message = find_message(&ranks->peers[from], kind);
    pthread_mutex_unlock(&ranks->lock);
    return message;
}

void ranks_set_handler(struct ranks *ranks, void (*handle)(void *arg, const struct message *message), void *arg)
{
    pthread_mutex_lock(&ranks->lock);
    while (ranks->is_handling)
        pthread_cond_wait(&ranks->changed, &ranks->lock);
    ranks->handle = handle;
    ranks->handle_arg = arg;
    pthread_mutex_unlock(&ranks->lock);
}
