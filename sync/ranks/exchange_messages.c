/* The messages of a round of an exchange between ranks that do not share memory. In the communication thread that executes
 * the exchange.
 *
 * Long messages cost the processor least: few calls, and MPI libraries receive them at their destination instead of
 * copying them there. But a long message is sent only when its receiver has agreed, and the agreement is queued behind
 * all data on the same connection: of two ranks that send each other everything at once, one would send only after the
 * other. Therefore only some messages are in flight in each direction.
 *
 * All ranks begin messages in the same order: the first messages to all ranks, then the second ones, and so on, each
 * rank beginning with the rank after it and receiving from the rank before it. So they do not all send to one rank, and
 * the earliest message that is not sent yet always finds its receiver ready. */
#include "sync/ranks/rank_exchange.h"

#define MESSAGE_BYTES 262144u
#define FLIGHT_BYTES 1048576u   /* no further message is begun while as much is in flight in its direction */

/* All data that this rank sends to another one, or receives from it, of one term or of its sums. */
struct transfer { uint32_t rank; char *data; size_t bytes; };

static int tag_of(const struct exchange *exchange)
{
    return EXCHANGE_TAG + (int)(exchange->bucket * ROUNDS + exchange->round);
}

static struct transfer term_transfer(const struct exchange *exchange, enum direction direction, uint32_t rank,
                                     uint32_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = exchange_bucket(exchange);
    const uint32_t own = ranks_rank(reduce->ranks);
    const struct rank_terms of = exchange_terms_of(exchange, direction == SENDING ? own : rank);
    const struct part part = exchange_part(exchange, direction == SENDING ? rank : own);
    if (number >= of.count)
        return (struct transfer){ .rank = rank };
    const struct term *const term = &exchange_terms(exchange)[of.first + number];
    const size_t size = layout_term_size(reduce, bucket, term);
    char *const data = direction == SENDING ? exchange_staged_term(exchange, term, exchange->number) + part.begin * size
                                            : exchange_received_term(exchange, term);
    return (struct transfer){ rank, data, part.count * size };
}

static struct transfer sums_transfer(const struct exchange *exchange, enum direction direction, uint32_t rank)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const uint32_t own = ranks_rank(reduce->ranks);
    const struct part part = exchange_part(exchange, direction == SENDING ? own : rank);
    const size_t size = layout_sum_size(reduce, exchange_bucket(exchange));
    return (struct transfer){ rank, exchange_sums(exchange, own, exchange->number) + part.begin * size,
                              part.count * size };
}

static uint32_t transfers_with_rank(const struct exchange *exchange)
{
    return exchange_sends_terms(exchange) ? exchange->reduce->terms_most : 1;
}

static uint32_t transfer_count(const struct exchange *exchange)
{
    return (exchange_circle(exchange).count - 1) * transfers_with_rank(exchange);
}

/* Transfer `index` of the round in this direction; it has no bytes where memory is shared. */
static struct transfer find_transfer(const struct exchange *exchange, enum direction direction, uint32_t index)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct circle circle = exchange_circle(exchange);
    const uint32_t own = (ranks_rank(reduce->ranks) - circle.first) / circle.stride;
    const uint32_t distance = index / transfers_with_rank(exchange) + 1;
    const uint32_t place = (direction == SENDING ? own + distance : own + circle.count - distance) % circle.count;
    const uint32_t rank = circle.first + place * circle.stride;
    if (layout_shares(reduce, rank))
        return (struct transfer){ .rank = rank };
    return exchange_sends_terms(exchange)
               ? term_transfer(exchange, direction, rank, index % transfers_with_rank(exchange))
               : sums_transfer(exchange, direction, rank);
}

/* Find the next message of the round in this direction, a piece of a transfer. False: there is none left. */
static bool next_message(struct exchange *exchange, enum direction direction, struct transfer *message_out)
{
    struct flow *const flow = &exchange->flows[direction];
    while (flow->at < flow->longest) {
        if (flow->transfer == transfer_count(exchange)) {
            flow->transfer = 0;
            flow->at += MESSAGE_BYTES;
            continue;
        }
        const struct transfer transfer = find_transfer(exchange, direction, flow->transfer++);
        if (transfer.bytes <= flow->at)
            continue;
        const size_t left = transfer.bytes - flow->at;
        *message_out = (struct transfer){ transfer.rank, transfer.data + flow->at,
                                          left < MESSAGE_BYTES ? left : MESSAGE_BYTES };
        return true;
    }
    return false;
}

static size_t find_longest(const struct exchange *exchange, enum direction direction)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < transfer_count(exchange); i++) {
        const size_t bytes = find_transfer(exchange, direction, i).bytes;
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

static bool is_full(const struct flow *flow)
{
    return flow->begun - flow->completed == FLIGHT_MESSAGES || flow->flight_bytes >= FLIGHT_BYTES;
}

/* Begin messages until enough are in flight. 0 or an error of the MPI library. */
static int begin_messages(struct exchange *exchange, enum direction direction)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    struct flow *const flow = &exchange->flows[direction];
    struct transfer message;
    int rc = 0;
    while (rc == 0 && !is_full(flow) && next_message(exchange, direction, &message)) {
        struct flight *const flight = &flow->flights[flow->begun++ % FLIGHT_MESSAGES];
        flight->bytes = message.bytes;
        flight->rank = message.rank;
        flow->flight_bytes += message.bytes;
        rc = direction == SENDING
                 ? module->send(message.data, message.bytes, message.rank, tag_of(exchange), &flight->request)
                 : module->receive(message.data, message.bytes, message.rank, tag_of(exchange), &flight->request);
    }
    return rc;
}

/* Complete messages, the earliest first, and begin others. A test of one request lets MPI make progress with all of
 * them. Returns 1 when no message is left, 0 before, or negative an error of the MPI library. */
static int advance_flow(struct exchange *exchange, enum direction direction)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    struct flow *const flow = &exchange->flows[direction];
    while (flow->completed < flow->begun) {
        struct flight *const flight = &flow->flights[flow->completed % FLIGHT_MESSAGES];
        bool has_passed = false;
        int rc = module->test(&flight->request, &has_passed);
        if (rc != 0)
            return -rc;
        if (!has_passed)
            return 0;
        flow->completed++;
        flow->flight_bytes -= flight->bytes;
        exchange->job.has_moved = true;
        rc = begin_messages(exchange, direction);
        if (rc != 0)
            return -rc;
    }
    return 1;
}

/* Receives are begun first, so that what arrives finds its destination. */
int exchange_begin_messages(struct exchange *exchange)
{
    int rc = 0;
    for (int direction = RECEIVING; direction < DIRECTIONS && rc == 0; direction++) {
        exchange->flows[direction] = (struct flow){ .longest = find_longest(exchange, direction) };
        rc = begin_messages(exchange, direction);
    }
    return rc;
}

int exchange_advance_messages(struct exchange *exchange)
{
    const int received = advance_flow(exchange, RECEIVING);
    const int sent = received < 0 ? received : advance_flow(exchange, SENDING);
    return sent < 0 ? sent : received == 1 && sent == 1;
}

uint32_t exchange_awaited(const struct exchange *exchange)
{
    const struct flow *const receiving = &exchange->flows[RECEIVING];
    const struct flow *const flow = receiving->completed < receiving->begun ? receiving : &exchange->flows[SENDING];
    return flow->flights[flow->completed % FLIGHT_MESSAGES].rank;
}

bool exchange_has_messages(const struct exchange *exchange)
{
    bool has = false;
    for (int direction = RECEIVING; direction < DIRECTIONS; direction++)
        has = has || exchange->flows[direction].completed < exchange->flows[direction].begun;
    return has;
}
