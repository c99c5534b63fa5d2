/* Messages between rank 0 and other ranks. Any thread queues messages. The communication thread sends them, and always
 * has one receive posted for every neighbour. With many ranks they go by a tree (rank_tree.h): a rank passes on those
 * that are for others, and sends those of several ranks to rank 0 that belong together as one. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sync/ranks/rank_tree.h"
#include "sync/ranks/ranks_private.h"

#define FLUSH_FAILED_S 1        /* the receiver may have failed, and then receives nothing */

/* ---- sending ---- */

/* `to`: the neighbour that gets it next; `other`: as in the envelope. */
static struct outgoing *outgoing_new(uint32_t to, uint32_t other, enum message_kind kind,
                                     const struct message_part *parts, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += parts[i].bytes;
    const bool is_long = bytes > EAGER_BYTES;
    struct outgoing *const out = calloc(1, sizeof(*out) + (is_long ? bytes : 0));
    if (out == NULL)
        return NULL;
    out->to = to;
    out->has_passed[1] = !is_long;
    out->envelope.other = other;
    out->envelope.kind = (uint16_t)kind;
    out->envelope.bytes = (uint32_t)bytes;
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

/* ---- the tree: where messages go, and those to rank 0 that are collected on their way ---- */

/* The neighbour to which a message for that rank, or its answer to rank 0, goes next. */
static uint32_t next_hop(const struct ranks *ranks, uint32_t to)
{
    const uint32_t own = ranks->launcher.rank;
    const uint32_t child = ranks->parents != NULL ? rank_tree_child(ranks->parents, own, to) : to;
    return child != UINT32_MAX ? child : ranks->parents[own];
}

static bool goes_to_neighbour(enum message_kind kind)
{
    return kind == MESSAGE_HEARTBEAT || kind == MESSAGE_FAILURE;
}

bool messages_are_cut(const struct ranks *ranks, uint32_t rank)
{
    bool are_cut = ranks->peers[rank].is_silent;
    while (!are_cut && ranks->parents != NULL && rank != 0) {
        rank = ranks->parents[rank];
        are_cut = ranks->peers[rank].is_silent;
    }
    return are_cut;
}

/* Queue a message, or free it if its receiver is silent. 0 or -ECANCELED. Lock held. */
static int queue(struct ranks *ranks, struct outgoing *out)
{
    if (ranks->peers[out->to].is_silent) {
        free(out);
        return -ECANCELED;
    }
    *ranks->out_end = out;
    ranks->out_end = &out->next;
    ranks->out_count++;
    return 0;
}

/* The start of a bundle: as many messages of each rank below its sender have then been sent. */
struct bundle_head { uint64_t rounds; };
/* The start of a message in a bundle; its data follows, and zeros up to a multiple of BUNDLE_ALIGN. */
struct bundled { uint32_t from, bytes; };
#define BUNDLE_ALIGN 8u
#define COLLECTED_BYTES ((size_t)16 << 20)      /* more do not wait for those of other ranks */

static const enum message_kind collected_kinds[COLLECTED_KINDS] = { MESSAGE_COLLECTIVE, MESSAGE_REPORT,
                                                                    MESSAGE_COUNTS };

/* The collection of a kind; NULL: it is not collected in this rank. */
static struct collection *collection_of(struct ranks *ranks, enum message_kind kind)
{
    for (uint32_t i = 0; i < COLLECTED_KINDS; i++)
        if (collected_kinds[i] == kind && ranks->collections[i].counts != NULL)
            return &ranks->collections[i];
    return NULL;
}

int messages_collect(struct ranks *ranks)
{
    int rc = 0;
    pthread_mutex_lock(&ranks->lock);
    for (uint32_t i = 0; i < COLLECTED_KINDS; i++) {
        struct collection *const collection = &ranks->collections[i];
        collection->used = sizeof(struct bundle_head);
        collection->room = EAGER_BYTES;
        collection->data = calloc(1, collection->room);
        collection->counts = calloc(neighbour_count(ranks), sizeof(*collection->counts));
        rc = collection->data != NULL && collection->counts != NULL ? rc : -ENOMEM;
    }
    pthread_mutex_unlock(&ranks->lock);
    return rc;
}

static uint32_t least_count(const struct ranks *ranks, const struct collection *collection)
{
    uint32_t least = collection->counts[0];
    for (uint32_t i = 1; i < neighbour_count(ranks); i++)
        least = collection->counts[i] < least ? collection->counts[i] : least;
    return least;
}

/* Send what was collected, if as much has come from each rank, or all the same. 0, -ECANCELED or -ENOMEM. Lock held. */
static int queue_collection(struct ranks *ranks, struct collection *collection, enum message_kind kind,
                            bool all_the_same)
{
    const uint32_t least = least_count(ranks, collection);
    const struct bundle_head head = { .rounds = least - collection->sent };
    if (head.rounds == 0 && (!all_the_same || collection->used == sizeof(head)))
        return 0;
    memcpy(collection->data, &head, sizeof(head));
    const struct message_part whole = { collection->data, collection->used };
    struct outgoing *const out = outgoing_new(ranks->neighbours[0].rank, 0, kind, &whole, 1);
    if (out == NULL)
        return -ENOMEM;
    out->envelope.is_bundle = 1;
    collection->used = sizeof(head);
    collection->sent = least;
    return queue(ranks, out);
}

void messages_queue_collected(struct ranks *ranks)
{
    for (uint32_t i = 0; i < COLLECTED_KINDS; i++)
        if (ranks->collections[i].counts != NULL)
            (void)queue_collection(ranks, &ranks->collections[i], collected_kinds[i], true);
}

/* Append data to a collection. 0 or -ENOMEM. */
static int append(struct collection *collection, const void *data, size_t bytes)
{
    const size_t padded = (bytes + BUNDLE_ALIGN - 1) / BUNDLE_ALIGN * BUNDLE_ALIGN, needed = collection->used + padded;
    if (needed > collection->room) {
        unsigned char *const grown = realloc(collection->data, 2 * needed);
        if (grown == NULL)
            return -ENOMEM;
        collection->data = grown;
        collection->room = 2 * needed;
    }
    memset(collection->data + collection->used, 0, padded);
    if (bytes > 0)
        memcpy(collection->data + collection->used, data, bytes);
    collection->used += padded;
    return 0;
}

static int append_message(struct collection *collection, uint32_t from, const struct message_part *parts,
                          uint32_t count)
{
    const size_t begin = collection->used;
    struct bundled bundled = { .from = from };
    for (uint32_t i = 0; i < count; i++)
        bundled.bytes += (uint32_t)parts[i].bytes;
    int rc = append(collection, &bundled, sizeof(bundled));
    size_t at = collection->used;       /* parts follow each other without gaps */
    for (uint32_t i = 0; i < count && rc == 0; at += parts[i++].bytes) {
        collection->used = at;
        rc = append(collection, parts[i].data, parts[i].bytes);
    }
    collection->used = (at + BUNDLE_ALIGN - 1) / BUNDLE_ALIGN * BUNDLE_ALIGN;
    if (rc != 0)
        collection->used = begin;
    return rc;
}

/* After messages of a collection were added: send them on if it is time. Lock held. */
static int settle(struct ranks *ranks, struct collection *collection, enum message_kind kind)
{
    return queue_collection(ranks, collection, kind, ranks->has_failed || collection->used > COLLECTED_BYTES);
}

/* ---- sending, by any thread ---- */

int ranks_send(struct ranks *ranks, uint32_t to, enum message_kind kind, const void *data, size_t bytes)
{
    return ranks_send_parts(ranks, to, kind, &(struct message_part){ data, bytes }, 1);
}

/* A message from this rank for the neighbour `hop`, or a rank behind it. */
static int send_by(struct ranks *ranks, uint32_t hop, uint32_t other, enum message_kind kind,
                   const struct message_part *parts, uint32_t count)
{
    struct collection *const collection = other == ranks->launcher.rank ? collection_of(ranks, kind) : NULL;
    struct outgoing *const out = collection == NULL ? outgoing_new(hop, other, kind, parts, count) : NULL;
    int rc = -ENOMEM;
    pthread_mutex_lock(&ranks->lock);
    if (collection != NULL)
        rc = append_message(collection, ranks->launcher.rank, parts, count);
    if (collection != NULL && rc == 0) {
        collection->counts[0]++;
        rc = settle(ranks, collection, kind);
    }
    if (out != NULL)
        rc = queue(ranks, out);
    pthread_mutex_unlock(&ranks->lock);
    if (rc == -ENOMEM && kind != MESSAGE_HEARTBEAT)
        lose_message(ranks, "to", hop);
    if (rc == 0)
        wakeup_send(ranks->wakeup, ranks->launcher.rank, 0);
    return rc;
}

int ranks_send_parts(struct ranks *ranks, uint32_t to, enum message_kind kind, const struct message_part *parts,
                     uint32_t count)
{
    const uint32_t own = ranks->launcher.rank;
    assert(to < ranks->launcher.size && to != own && (to == 0 || own == 0 || goes_to_neighbour(kind)));
    const uint32_t other = ranks->parents == NULL || goes_to_neighbour(kind) ? 0 : own == 0 ? to : own;
    return send_by(ranks, next_hop(ranks, to), other, kind, parts, count);
}

int ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes)
{
    int rc = 0;
    for (uint32_t i = 0; i < neighbour_count(ranks); i++) {
        const int sent = send_by(ranks, ranks->neighbours[i].rank, ranks->parents == NULL ? 0 : RANK_ALL, kind,
                                 &(struct message_part){ data, bytes }, 1);
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
        neighbour_of(ranks, out->to)->has_heartbeat_queued = false;
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

/* ---- messages for other ranks, and those from several ---- */

/* Pass a message on to a neighbour. Errors fail the run. */
static void forward(struct ranks *ranks, uint32_t hop, uint32_t other, const struct message *message)
{
    (void)send_by(ranks, hop, other, message->kind, &(struct message_part){ message->data, message->bytes }, 1);
}

static uint32_t *count_of(struct ranks *ranks, struct collection *collection, uint32_t neighbour)
{
    return &collection->counts[neighbour_of(ranks, neighbour) - ranks->neighbours];
}

/* Collect a message, or a bundle, that came from a child on its way to rank 0. */
static void collect(struct ranks *ranks, struct collection *collection, uint32_t child, const struct message *message)
{
    const bool is_bundle = neighbour_of(ranks, child)->envelope.is_bundle;
    const struct message_part whole = { message->data, message->bytes };
    struct bundle_head head = { .rounds = 1 };
    if (is_bundle)
        memcpy(&head, message->data, sizeof(head));
    pthread_mutex_lock(&ranks->lock);
    int rc = is_bundle ? append(collection, message->data + sizeof(head), message->bytes - sizeof(head))
                       : append_message(collection, message->from, &whole, 1);
    *count_of(ranks, collection, child) += (uint32_t)head.rounds;
    if (rc == 0)
        rc = settle(ranks, collection, message->kind);
    pthread_mutex_unlock(&ranks->lock);
    if (rc == -ENOMEM)
        lose_message(ranks, "from", child);
}

/* Rank 0: deliver the messages of a bundle. */
static void unbundle(struct ranks *ranks, const struct message *bundle)
{
    struct bundled bundled;
    for (size_t at = sizeof(struct bundle_head); at < bundle->bytes;) {
        memcpy(&bundled, bundle->data + at, sizeof(bundled));
        at += sizeof(bundled);
        struct message *const message = malloc(sizeof(*message) + bundled.bytes);
        if (message == NULL) {
            lose_message(ranks, "from", bundled.from);
            return;
        }
        *message = (struct message){ .from = bundled.from, .kind = bundle->kind, .bytes = bundled.bytes };
        memcpy(message->data, bundle->data + at, bundled.bytes);
        deliver(ranks, message);
        at += (bundled.bytes + BUNDLE_ALIGN - 1) / BUNDLE_ALIGN * BUNDLE_ALIGN;
    }
}

static void take_from_parent(struct ranks *ranks, uint32_t other, struct message *message)
{
    if (other != RANK_ALL && other != ranks->launcher.rank) {
        forward(ranks, next_hop(ranks, other), other, message);
        free(message);
        return;
    }
    for (uint32_t i = 1; i < neighbour_count(ranks) && other == RANK_ALL; i++)
        forward(ranks, ranks->neighbours[i].rank, RANK_ALL, message);
    deliver(ranks, message);            /* last: main may then close the ranks, when no message is queued */
}

static void take_from_child(struct ranks *ranks, uint32_t child, struct message *message)
{
    const struct envelope *const envelope = &neighbour_of(ranks, child)->envelope;
    struct collection *const collection = collection_of(ranks, message->kind);
    if (ranks->launcher.rank == 0 && !envelope->is_bundle) {
        deliver(ranks, message);
        return;
    }
    if (ranks->launcher.rank == 0)
        unbundle(ranks, message);
    else if (collection != NULL)
        collect(ranks, collection, child, message);
    else
        forward(ranks, ranks->parents[ranks->launcher.rank], envelope->other, message);
    free(message);
}

static bool is_from_parent(const struct ranks *ranks, uint32_t neighbour)
{
    return ranks->launcher.rank != 0 && neighbour == ranks->neighbours[0].rank;
}

/* A message has come from a neighbour: deliver it, or pass it on. */
static void take(struct ranks *ranks, uint32_t neighbour, struct message *message)
{
    if (ranks->parents == NULL || goes_to_neighbour(message->kind))
        deliver(ranks, message);
    else if (is_from_parent(ranks, neighbour))
        take_from_parent(ranks, neighbour_of(ranks, neighbour)->envelope.other, message);
    else
        take_from_child(ranks, neighbour, message);
}

/* The rank that has sent the message which the neighbour passes on. */
static uint32_t sender_of(const struct ranks *ranks, uint32_t neighbour)
{
    const struct envelope *const envelope = &neighbour_of(ranks, neighbour)->envelope;
    if (ranks->parents == NULL || goes_to_neighbour(envelope->kind))
        return neighbour;
    return is_from_parent(ranks, neighbour) ? 0 : envelope->other;
}

static int receive_envelope(struct ranks *ranks, struct neighbour *from)
{
    from->incoming = NULL;
    return ranks->module->receive(&from->envelope, sizeof(from->envelope), from->rank, ENVELOPE_TAG, &from->request);
}

int messages_begin(struct ranks *ranks, uint32_t *peer_out)
{
    int rc = 0;
    for (uint32_t i = 0; i < neighbour_count(ranks) && rc == 0; i++) {
        *peer_out = ranks->neighbours[i].rank;
        rc = receive_envelope(ranks, &ranks->neighbours[i]);
    }
    return rc;
}

static int deliver_and_receive(struct ranks *ranks, struct neighbour *from, struct message *message)
{
    ranks->announced_received += from->envelope.is_announced;
    take(ranks, from->rank, message);
    return receive_envelope(ranks, from);
}

/* An envelope or a payload has arrived: deliver the message, or first receive its payload. */
static int handle_arrival(struct ranks *ranks, struct neighbour *from)
{
    if (from->incoming != NULL)
        return deliver_and_receive(ranks, from, from->incoming);
    struct message *const message = message_new(sender_of(ranks, from->rank), &from->envelope);
    if (message == NULL) {
        lose_message(ranks, "from", from->rank);
        return 0;       /* tried again at the next test, as the request stays complete */
    }
    if (message->bytes <= EAGER_BYTES)
        return deliver_and_receive(ranks, from, message);
    from->incoming = message;
    return ranks->module->receive(message->data, message->bytes, from->rank, PAYLOAD_TAG, &from->request);
}

int messages_advance(struct ranks *ranks, struct outgoing **in_flight, bool *moved_out, uint32_t *peer_out)
{
    int rc = send_queued(ranks, in_flight, moved_out, peer_out);
    if (rc == 0)
        rc = test_sends(ranks, in_flight, moved_out, peer_out);
    for (uint32_t i = 0; i < neighbour_count(ranks) && rc == 0; i++) {
        struct neighbour *const from = &ranks->neighbours[i];
        bool has_arrived = false;
        *peer_out = from->rank;
        rc = ranks->module->test(&from->request, &has_arrived);
        if (rc == 0 && has_arrived) {
            *moved_out = true;
            rc = handle_arrival(ranks, from);
        }
    }
    return rc;
}

void messages_end(struct ranks *ranks)
{
    for (uint32_t i = 0; i < neighbour_count(ranks); i++)
        ranks->module->cancel(&ranks->neighbours[i].request);
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
static bool cannot_arrive(const struct ranks *ranks, uint32_t from, enum message_kind kind)
{
    return messages_are_cut(ranks, from == 0 ? ranks->launcher.rank : from) ||
           (ranks->has_failed && kind != MESSAGE_COLLECTIVE);
}

int ranks_receive_until(struct ranks *ranks, uint32_t from, enum message_kind kind, const atomic_bool *has_ended,
                        struct message **message_out)
{
    struct peer *const peer = &ranks->peers[from];
    assert(kind >= MESSAGE_HANDLED && from < ranks->launcher.size && (from == 0) != (ranks->launcher.rank == 0));
    pthread_mutex_lock(&ranks->lock);
    struct message *message;
    while ((message = find_message(peer, kind)) == NULL && !cannot_arrive(ranks, from, kind) && !atomic_load(has_ended))
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
