/* Messages between the towers of ranks other than 0 and the parameter server of rank 0. Fetches are called by the
 * towers' threads, pushes by their communication streams. */
#include "sync/ranks/server_link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/thread.h"

#define PIECE_FLOATS ((size_t)1 << 16)  /* the most that a message has; other messages are sent between pieces */

enum request {
    REQUEST_FETCH,              /* to rank 0: number is the step, `amount` the bound */
    REQUEST_PUSH,               /* to rank 0: number is the batch, `amount` the delay; gradients */
    REQUEST_PUSHED,             /* to rank 0: number is the step before which all updates are sent */
    REQUEST_WEIGHTS             /* from rank 0: number is the step, `amount` the staleness; weights */
};

/* The data of MESSAGE_SERVER; `count` numbers of the arena from `offset` on follow, in one or more messages. */
struct server_message {
    uint32_t request, tower, bucket, amount;
    uint64_t number, offset, count;
    uint32_t is_last;           /* of the messages with gradients or weights */
    uint32_t padding;
};

/* In rank 0: a tower of another rank. */
struct remote {
    float *gradients;           /* an arena of those that are being received; used by the thread of its rank */
    /* Guarded by the lock of the progress: the tower waits for weights. */
    bool is_waiting;
    uint64_t step;
    uint32_t bound;
};

/* In another rank: a tower of it. */
struct client {
    float *weights;             /* an arena; received while the tower waits */
    bool has_weights;           /* guarded by the lock of the link: they are complete */
    uint32_t staleness;         /* likewise */
};

/* The argument of a thread that receives from a rank. */
struct receiver { struct server_link *link; uint32_t from; struct thread *thread; };

struct server_link {
    struct server_link_spec spec;
    struct remote *remotes;     /* [tower]; those of rank 0 are not used. NULL in other ranks */
    struct client *clients;     /* [tower of this rank]; NULL in rank 0 */
    float *answer;              /* in rank 0: weights that are being sent */
    struct receiver *receivers; /* [receiver_count] */
    uint32_t receiver_count;
    struct thread *answers;     /* in rank 0 */
    atomic_bool has_ended;
    pthread_mutex_t lock;       /* guards the members below, and parts of the clients */
    pthread_cond_t changed;
    bool is_cancelled, is_joined;
};

static bool is_server(const struct server_link *link)
{
    return link->spec.server != NULL;
}

static size_t gradient_size(const struct server_link *link)
{
    return link->spec.has_bf16_grads ? sizeof(uint16_t) : sizeof(float);
}

/* ---- sending ---- */

static int send_message(struct server_link *link, uint32_t to, const struct server_message *head, const void *numbers,
                        size_t bytes)
{
    const struct message_part parts[] = { { head, sizeof(*head) }, { numbers, bytes } };
    return ranks_send_parts(link->spec.ranks, to, MESSAGE_SERVER, parts, bytes > 0 ? 2 : 1);
}

/* Send the numbers head->offset ... of the arena at `numbers`, as several messages. */
static int send_numbers(struct server_link *link, uint32_t to, const struct server_message *whole, const void *numbers,
                        size_t size)
{
    const size_t end = whole->offset + whole->count;
    int rc = 0;
    for (size_t at = whole->offset; at < end && rc == 0; at += PIECE_FLOATS) {
        struct server_message head = *whole;
        head.offset = at;
        head.count = end - at < PIECE_FLOATS ? end - at : PIECE_FLOATS;
        head.is_last = at + head.count == end;
        rc = send_message(link, to, &head, (const char *)numbers + at * size, head.count * size);
    }
    return rc;
}

/* ---- in rank 0 ---- */

static void store_gradients(struct server_link *link, const struct server_message *head, const void *numbers)
{
    float *const to = link->remotes[head->tower].gradients + head->offset;
    if (link->spec.has_bf16_grads)
        floats_from_bf16(numbers, to, head->count);
    else
        memcpy(to, numbers, head->count * sizeof(float));
}

static void ask_for_weights(struct server_link *link, const struct server_message *head)
{
    struct server_progress *const progress = link->spec.progress;
    struct remote *const remote = &link->remotes[head->tower];
    pthread_mutex_lock(&progress->lock);
    remote->is_waiting = true;
    remote->step = head->number;
    remote->bound = head->amount;
    pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
}

static void serve(struct server_link *link, const struct server_message *head, const void *numbers)
{
    switch ((enum request)head->request) {
    case REQUEST_FETCH: ask_for_weights(link, head); return;
    case REQUEST_PUSH:
        store_gradients(link, head, numbers);
        if (head->is_last)
            server_push(link->spec.server, head->tower, link->remotes[head->tower].gradients, head->bucket,
                        head->number, head->amount);
        return;
    case REQUEST_PUSHED: server_progress_set(link->spec.progress, head->tower, head->number); return;
    case REQUEST_WEIGHTS: break;
    }
    assert(!"weights for the server");
}

/* Find a tower that waits and may fetch now; *head_out is the head of its answer. Lock of the progress held. */
static bool find_waiting(struct server_link *link, struct server_message *head_out)
{
    const struct server_link_spec *const spec = &link->spec;
    for (uint32_t tower = spec->here.count; tower < spec->towers; tower++) {
        struct remote *const remote = &link->remotes[tower];
        uint32_t staleness;
        if (!remote->is_waiting ||
            !server_progress_permits(spec->progress, tower, remote->step, remote->bound, &staleness))
            continue;
        remote->is_waiting = false;
        *head_out = (struct server_message){ .request = REQUEST_WEIGHTS, .tower = tower, .number = remote->step,
                                             .amount = staleness, .count = spec->floats };
        return true;
    }
    return false;
}

/* Wait for a tower that may fetch. 0 or -ECANCELED. */
static int await_waiting(struct server_link *link, struct server_message *head_out)
{
    struct server_progress *const progress = link->spec.progress;
    bool has_found = false;
    pthread_mutex_lock(&progress->lock);
    while (!atomic_load(&link->has_ended) && !(has_found = find_waiting(link, head_out)))
        pthread_cond_wait(&progress->changed, &progress->lock);
    pthread_mutex_unlock(&progress->lock);
    return has_found ? 0 : -ECANCELED;
}

static void answer_loop(void *arg)
{
    struct server_link *const link = arg;
    struct server_message head;
    while (await_waiting(link, &head) == 0) {
        server_fetch(link->spec.server, link->answer);
        /* An error ends the run. */
        (void)send_numbers(link, head.tower / link->spec.here.count, &head, link->answer, sizeof(float));
    }
}

/* ---- in other ranks ---- */

static struct client *client_of(const struct server_link *link, uint32_t tower)
{
    return &link->clients[tower - link->spec.here.first];
}

static void take_weights(struct server_link *link, const struct server_message *head, const void *numbers)
{
    struct client *const client = client_of(link, head->tower);
    assert(head->request == REQUEST_WEIGHTS);
    memcpy(client->weights + head->offset, numbers, head->count * sizeof(float));
    if (!head->is_last)
        return;
    pthread_mutex_lock(&link->lock);
    client->has_weights = true;
    client->staleness = head->amount;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

int server_link_fetch(struct server_link *link, uint32_t tower, uint64_t step, uint32_t bound,
                      const float **weights_out, uint32_t *staleness_out)
{
    struct client *const client = client_of(link, tower);
    const struct server_message head = { .request = REQUEST_FETCH, .tower = tower, .number = step, .amount = bound };
    const int rc = send_message(link, 0, &head, NULL, 0);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&link->lock);
    while (!client->has_weights && !link->is_cancelled)
        pthread_cond_wait(&link->changed, &link->lock);
    const bool has_weights = client->has_weights;
    client->has_weights = false;
    *weights_out = client->weights;
    *staleness_out = client->staleness;
    pthread_mutex_unlock(&link->lock);
    return has_weights ? 0 : -ECANCELED;
}

int server_link_push(struct server_link *link, uint32_t tower, const struct server_gradients *gradients, uint32_t bucket,
                     uint64_t batch, uint32_t delay)
{
    const struct server_message head = { .request = REQUEST_PUSH, .tower = tower, .bucket = bucket, .amount = delay,
                                         .number = batch, .offset = gradients->offset, .count = gradients->count };
    return send_numbers(link, 0, &head, gradients->numbers, gradient_size(link));
}

int server_link_pushed(struct server_link *link, uint32_t tower, uint64_t next)
{
    const struct server_message head = { .request = REQUEST_PUSHED, .tower = tower, .number = next };
    return send_message(link, 0, &head, NULL, 0);
}

/* ---- opening and closing ---- */

static void receive_loop(void *arg)
{
    const struct receiver *const receiver = arg;
    struct server_link *const link = receiver->link;
    struct message *message;
    while (ranks_receive_until(link->spec.ranks, receiver->from, MESSAGE_SERVER, &link->has_ended, &message) == 0) {
        const struct server_message *const head = (const struct server_message *)(const void *)message->data;
        if (is_server(link))
            serve(link, head, head + 1);
        else
            take_weights(link, head, head + 1);
        free(message);
    }
}

size_t server_link_bytes(const struct ranks *ranks, uint32_t towers, struct tower_range here, size_t floats)
{
    const bool is_server = ranks_rank(ranks) == 0;
    const size_t arenas = is_server ? 3 * (size_t)(towers - here.count) + 1 : 3 * (size_t)here.count;
    return arenas * floats * sizeof(float);
}

static int allocate_remotes(struct server_link *link)
{
    const struct server_link_spec *const spec = &link->spec;
    link->remotes = calloc(spec->towers, sizeof(*link->remotes));
    link->answer = calloc(spec->floats + 1, sizeof(float));
    bool has_all = link->remotes != NULL && link->answer != NULL;
    for (uint32_t tower = spec->here.count; tower < spec->towers && has_all; tower++) {
        link->remotes[tower].gradients = calloc(spec->floats + 1, sizeof(float));
        has_all = link->remotes[tower].gradients != NULL;
    }
    return has_all ? 0 : -ENOMEM;
}

static int allocate_clients(struct server_link *link)
{
    link->clients = calloc(link->spec.here.count, sizeof(*link->clients));
    bool has_all = link->clients != NULL;
    for (uint32_t i = 0; i < link->spec.here.count && has_all; i++) {
        link->clients[i].weights = calloc(link->spec.floats + 1, sizeof(float));
        has_all = link->clients[i].weights != NULL;
    }
    return has_all ? 0 : -ENOMEM;
}

static int start_threads(struct server_link *link)
{
    const uint32_t others = ranks_size(link->spec.ranks) - 1;
    link->receiver_count = is_server(link) ? others : 1;
    link->receivers = calloc(link->receiver_count, sizeof(*link->receivers));
    int rc = link->receivers == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < link->receiver_count && rc == 0; i++) {
        struct receiver *const receiver = &link->receivers[i];
        *receiver = (struct receiver){ .link = link, .from = is_server(link) ? i + 1 : 0 };
        rc = thread_start(&receiver->thread, "server link", receive_loop, receiver);
    }
    if (rc == 0 && is_server(link))
        rc = thread_start(&link->answers, "server answers", answer_loop, link);
    return rc;
}

int server_link_open(struct server_link **link_out, const struct server_link_spec *spec)
{
    struct server_link *const link = calloc(1, sizeof(*link));
    if (link == NULL)
        return -ENOMEM;
    link->spec = *spec;
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->changed, NULL);
    int rc = is_server(link) ? allocate_remotes(link) : allocate_clients(link);
    if (rc == 0)
        rc = start_threads(link);
    if (rc != 0)
        server_link_close(link);
    else
        *link_out = link;
    return rc;
}

void server_link_cancel(struct server_link *link)
{
    if (link == NULL)
        return;
    pthread_mutex_lock(&link->lock);
    link->is_cancelled = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

/* Wake the thread that answers, which waits for the progress. */
static void wake_answers(struct server_link *link)
{
    struct server_progress *const progress = link->spec.progress;
    pthread_mutex_lock(&progress->lock);
    pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->lock);
}

void server_link_end(struct server_link *link)
{
    if (link == NULL)
        return;
    pthread_mutex_lock(&link->lock);
    const bool is_joined = link->is_joined;
    link->is_joined = true;
    pthread_mutex_unlock(&link->lock);
    if (is_joined)
        return;
    atomic_store(&link->has_ended, true);
    ranks_notify(link->spec.ranks);
    if (is_server(link))
        wake_answers(link);
    for (uint32_t i = 0; i < link->receiver_count && link->receivers != NULL; i++)
        thread_join(link->receivers[i].thread);
    thread_join(link->answers);
}

void server_link_close(struct server_link *link)
{
    if (link == NULL)
        return;
    server_link_end(link);
    for (uint32_t tower = 0; tower < link->spec.towers && link->remotes != NULL; tower++)
        free(link->remotes[tower].gradients);
    for (uint32_t i = 0; i < link->spec.here.count && link->clients != NULL; i++)
        free(link->clients[i].weights);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link->receivers);
    free(link->answer);
    free(link->clients);
    free(link->remotes);
    free(link);
}
