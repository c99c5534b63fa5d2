/* Tests of the plan of values and gradients. Random graphs are run in a simulation: every word of
 * the block says which value it belongs to, or which parts of which gradient have been added up
 * in it; every read checks that it finds what it expects, and between instants everything that
 * the plan holds nothing in is poisoned. */
#include <stdlib.h>
#include <string.h>

#include "compute/plan/values.h"
#include "stage/random.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"

enum { GRAPHS = 400, WORDS = 2 };       /* words of memory per number of a value */

/* ---- graphs, and uses at random ---- */

static const struct fusion_rule rules[] = {
    { .head = LAYER_BATCH_NORM, .tail_count = 2, .tail = { LAYER_ADD, LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_RELU } },
};

struct planned {
    struct net *net;
    struct fusion fusion;
    struct value_memory plan;
    struct value_use uses[NET_LAYERS_MAX];
    uint32_t own[NET_LAYERS_MAX];       /* a buffer of each head's own, from its forward to its last instant */
    size_t bytes[NET_LAYERS_MAX + 1];
};

static uint32_t draw(uint32_t seed, uint32_t head, uint32_t what, uint32_t below)
{
    return (uint32_t)(random_u64(random_key(seed, RANDOM_DRAW, 20 + what), head) % below);
}

static bool is_loss(const struct layer *layer)
{
    return layer->kind == LAYER_SOFTMAX_LOSS || layer->kind == LAYER_AUXILIARY_LOSS;
}

static bool may_be_identity(const struct planned *planned, uint32_t head)
{
    const struct layer *const layer = &planned->net->layers[head];
    return planned->fusion.groups[head].tail_count == 0 && !is_loss(layer) &&
           !layer_is_trained(layer) && layer->input_count == 1 && shape_count(layer->in) == shape_count(layer->out);
}

static bool may_grow(const struct planned *planned, uint32_t head)
{
    return planned->net->layers[head].kind == LAYER_CONCAT && planned->fusion.groups[head].tail_count == 0;
}

static struct value_use use_draw(const struct planned *planned, uint32_t head, uint32_t seed, bool training)
{
    if (is_loss(&planned->net->layers[head]))
        return (struct value_use){ .gradient_early = true };
    if (may_grow(planned, head) && draw(seed, head, 9, 4) > 0)
        return (struct value_use){ .grows = true, .adds = true, .reads_fronts = true };
    if (may_be_identity(planned, head) && draw(seed, head, 0, 4) == 0)
        return (struct value_use){ .is_identity = true };
    struct value_use use = {
        .in_until = (enum pass)draw(seed, head, 1, 3),
        .others_until = (enum pass)draw(seed, head, 11, 3),
        .out_until = (enum pass)draw(seed, head, 2, 3),
        .out_sign = draw(seed, head, 3, 2) == 0,
        .keeps_sign = draw(seed, head, 4, 2) == 0,
        .gradient_in_place = draw(seed, head, 5, 2) == 0,
        .adds = draw(seed, head, 6, 2) == 0,
        .adds_apart = draw(seed, head, 12, 2) == 0,
        .takes_masked = draw(seed, head, 13, 2) == 0,
        .reads_fronts = draw(seed, head, 10, 8) > 0,
    };
    use.in_place = use.in_until == PASS_FORWARD && draw(seed, head, 7, 4) > 0;
    if (!training && fusion_is_head(&planned->fusion, head))
        use.in_place_input = draw(seed, head, 8, planned->fusion.groups[head].input_count);
    return use;
}

static void open_own_buffers(struct planned *planned)
{
    struct value_memory *const plan = &planned->plan;
    for (uint32_t i = 0; i < planned->net->layer_count; i++) {
        assert_int_equal(value_memory_buffer(plan, 8 * (1 + i % 20), &planned->own[i]), 0);
        value_memory_use(plan, planned->own[i], time_forward(i));
        if (plan->training)
            value_memory_use(plan, planned->own[i], time_inputs(plan, i));
    }
}

static void planned_open(struct planned *planned, uint32_t seed, bool training)
{
    struct net *const net = network_random_graph(seed, 0.5f);
    planned->net = net;
    const uint32_t rule_count = seed % 3 == 0 ? 0 : sizeof(rules) / sizeof(rules[0]);
    assert_int_equal(fusion_open(&planned->fusion, net, all_layers(net), rules, rule_count, training), 0);
    for (uint32_t v = 0; v <= net->layer_count; v++)
        planned->bytes[v] = 8 * WORDS * shape_count(v == 0 ? net->input : net->layers[v - 1].out);
    for (uint32_t i = 0; i < net->layer_count; i++)
        planned->uses[i] = use_draw(planned, i, seed, training);
    assert_int_equal(value_memory_open(&planned->plan, &planned->fusion, training, planned->bytes, planned->uses), 0);
    open_own_buffers(planned);
    assert_int_equal(value_memory_place(&planned->plan), 0);
}

static void planned_close(struct planned *planned)
{
    value_memory_close(&planned->plan);
    fusion_close(&planned->fusion);
    net_close(planned->net);
}

/* ---- the simulation ---- */

/* What a word holds: a value, a gradient of which some parts are there, or something of a head's own. */
enum kind { KIND_VALUE = 1, KIND_GRADIENT, KIND_OWN };

static uint64_t word_of(enum kind kind, uint32_t index, uint32_t parts)
{
    return (uint64_t)kind << 56 | (uint64_t)index << 32 | parts;
}

struct simulation {
    const struct value_memory *plan;
    const struct fusion *fusion;
    const struct value_use *uses;       /* what layers really do */
    const size_t *bytes;                /* by value: its own, of a front not those of the widest */
    char *memory;
    uint32_t same[NET_LAYERS_MAX + 1];  /* by value: the one an identity made it of, else itself */
    uint32_t signs[NET_LAYERS_MAX + 1]; /* by value: the one it was written over with the signs kept, else itself */
    uint32_t parts[NET_LAYERS_MAX + 1]; /* by value: of a gradient that is complete, a bit for every reader */
    bool is_right;                      /* so far every read found what it expected */
};

/* Numbers of a buffer: all, or those of a value, or what of it is not the first `first`. */
struct words { uint64_t *at; size_t count; };

static struct words all_words(const struct simulation *s, uint32_t buffer)
{
    const struct lifetime *const life = &s->plan->buffers[buffer];
    return (struct words){ (uint64_t *)(void *)(s->memory + life->offset), life->bytes / 8 };
}

static struct words words_of(const struct simulation *s, uint32_t buffer, uint32_t value)
{
    return (struct words){ all_words(s, buffer).at, s->bytes[value] / 8 };
}

static struct words words_behind(struct words words, size_t first)
{
    return (struct words){ words.at + first, words.count - first };
}

static void fill(struct words words, uint64_t word)
{
    for (size_t i = 0; i < words.count; i++)
        words.at[i] = word;
}

static void require(struct simulation *s, struct words words, uint64_t word)
{
    for (size_t i = 0; i < words.count; i++)
        s->is_right = s->is_right && words.at[i] == word;
}

static uint32_t buffer_of(const struct simulation *s, uint32_t value)
{
    return s->plan->values[value].buffer;
}

/* How many words of the value are those of what it has grown from. */
static size_t grown_from(const struct simulation *s, uint32_t value)
{
    const uint32_t maker = value != 0 ? s->fusion->groups[value - 1].head : FUSION_LEFT_OUT;
    if (maker == FUSION_LEFT_OUT || !value_memory_grows(s->plan, maker))
        return 0;
    return s->bytes[s->fusion->groups[maker].inputs[0]] / 8;
}

static void require_value(struct simulation *s, uint32_t value)
{
    const uint32_t same = s->same[value];
    const size_t grown = grown_from(s, same);
    if (grown > 0)
        require_value(s, s->fusion->groups[s->fusion->groups[same - 1].head].inputs[0]);
    require(s, words_behind(words_of(s, buffer_of(s, value), value), grown), word_of(KIND_VALUE, same, 0));
}

/* The value, or one written over it that is above 0 where it was. */
static void require_signs(struct simulation *s, uint32_t value)
{
    const struct words words = words_of(s, buffer_of(s, value), value);
    uint32_t found = (uint32_t)(words.at[0] >> 32) & 0xffffff;
    if (words.at[0] >> 56 != KIND_VALUE || found > s->fusion->net->layer_count) {
        s->is_right = false;
        return;
    }
    require(s, words, words.at[0]);
    while (found != s->same[value] && s->signs[found] != found)
        found = s->signs[found];
    s->is_right = s->is_right && found == s->same[value];
}

static bool is_held(const struct value_memory *plan, size_t offset, uint32_t time)
{
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const struct lifetime *const life = &plan->buffers[b];
        if (life->first <= time && time <= life->last && offset >= life->offset && offset - life->offset < life->bytes)
            return true;
    }
    return false;
}

/* What holds nothing behind the instant becomes something else. */
static void poison(struct simulation *s, uint32_t time)
{
    for (size_t at = 0; at < s->plan->bytes; at += LIFETIME_ALIGN)
        if (!is_held(s->plan, at, time))
            memset(s->memory + at, 0xff, LIFETIME_ALIGN);
}

/* ---- forward ---- */

static void check_inputs(struct simulation *s, uint32_t head, uint32_t but)
{
    const struct group *const group = &s->fusion->groups[head];
    for (uint32_t k = 0; k < group->input_count; k++)
        if (k != but)
            require_value(s, group->inputs[k]);
}

static void give_gradients(struct simulation *s, uint32_t head);

static void run_forward(struct simulation *s, uint32_t head, uint32_t own)
{
    const struct group *const group = &s->fusion->groups[head];
    const uint32_t over = s->uses[head].in_place_input;
    const uint32_t from = group->inputs[over], to = group->output;
    const bool is_written_over = buffer_of(s, from) == buffer_of(s, to) && !value_memory_grows(s->plan, head);
    check_inputs(s, head, BUFFER_NONE);
    s->same[to] = s->uses[head].is_identity ? s->same[from] : to;
    s->signs[to] = is_written_over && s->uses[head].keeps_sign ? s->same[from] : to;
    fill(all_words(s, own), word_of(KIND_OWN, head, 0));
    if (s->uses[head].is_identity)
        return;
    if (buffer_of(s, to) != BUFFER_NONE)
        fill(words_behind(words_of(s, buffer_of(s, to), to), grown_from(s, to)), word_of(KIND_VALUE, to, 0));
    if (s->plan->training && s->uses[head].gradient_early)
        give_gradients(s, head);
    check_inputs(s, head, is_written_over ? over : BUFFER_NONE);
}

/* ---- backward ---- */

/* The part that input `k` of the group gives to the gradient of what it reads. */
static uint32_t part_of(const struct simulation *s, uint32_t head, uint32_t k)
{
    const uint32_t value = s->fusion->groups[head].inputs[k];
    uint32_t part = 1;
    for (uint32_t i = 0; i <= head; i++)
        for (uint32_t j = 0; fusion_is_head(s->fusion, i) && j < s->fusion->groups[i].input_count; j++) {
            if (i == head && j == k)
                return part;
            part <<= s->fusion->groups[i].inputs[j] == value;
        }
    return 0;
}

static void find_parts(struct simulation *s)
{
    for (uint32_t i = 0; i < s->fusion->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(s->fusion, i) && k < s->fusion->groups[i].input_count; k++)
            s->parts[s->fusion->groups[i].inputs[k]] |= part_of(s, i, k);
}

/* Behind the first words, which may be the gradient of an input already. */
static void require_gradient_above(struct simulation *s, uint32_t head, size_t first)
{
    const uint32_t value = s->fusion->groups[head].output, buffer = s->plan->values[value].gradient;
    if (buffer != BUFFER_NONE)
        require(s, words_behind(words_of(s, buffer, value), first), word_of(KIND_GRADIENT, value, s->parts[value]));
}

/* Add a part to the gradient in the buffer, of which others are there. */
static void add_part(struct simulation *s, uint32_t buffer, uint32_t value, uint32_t part)
{
    const struct words words = words_of(s, buffer, value);
    const uint32_t parts = (uint32_t)words.at[0];
    s->is_right = s->is_right && parts != 0 && (parts & part) == 0;
    require(s, words, word_of(KIND_GRADIENT, value, parts));
    fill(words, word_of(KIND_GRADIENT, value, parts | part));
}

/* The group writes the gradient with the parts that are in another buffer. */
static void write_sum(struct simulation *s, const struct flow *flow, uint32_t value, uint32_t part)
{
    const struct words words = words_of(s, flow->addend, value);
    const uint32_t parts = (uint32_t)words.at[0];
    s->is_right = s->is_right && parts != 0 && (parts & part) == 0;
    fill(words_of(s, flow->buffer, value), word_of(KIND_GRADIENT, value, parts | part));
    require(s, words, word_of(KIND_GRADIENT, value, parts));
}

/* The group that masks a gradient completes it, and finds the value that masks it. */
static void check_mask(struct simulation *s, const struct flow *flow, uint32_t value)
{
    if (!flow->masks)
        return;
    require_value(s, value);
    s->is_right = s->is_right && s->plan->values[value].gradient == flow->buffer &&
                  (uint32_t)words_of(s, flow->buffer, value).at[0] == s->parts[value];
}

static void give_gradient(struct simulation *s, uint32_t head, uint32_t k)
{
    const struct flow *const flow = &s->plan->flows[head][k];
    const uint32_t value = s->fusion->groups[head].inputs[k];
    require_gradient_above(s, head, k > 0 ? grown_from(s, s->fusion->groups[head].output) : 0);
    if (flow->buffer == BUFFER_NONE)
        return;
    if (flow->addend != BUFFER_NONE && s->uses[head].adds_apart)
        write_sum(s, flow, value, part_of(s, head, k));
    else if (flow->adds && s->uses[head].adds)
        add_part(s, flow->buffer, value, part_of(s, head, k));
    else
        fill(words_of(s, flow->buffer, value), word_of(KIND_GRADIENT, value, part_of(s, head, k)));
    check_mask(s, flow, value);
}

static void give_gradients(struct simulation *s, uint32_t head)
{
    const struct group *const group = &s->fusion->groups[head];
    for (uint32_t k = 0; k < group->input_count; k++)
        give_gradient(s, head, k);
}

/* What the groups could not add themselves. */
static void add_sums(struct simulation *s, uint32_t head)
{
    const struct group *const group = &s->fusion->groups[head];
    for (uint32_t k = 0; k < group->input_count; k++) {
        const struct flow *const flow = &s->plan->flows[head][k];
        const uint32_t part = part_of(s, head, k);
        if (flow->sum == BUFFER_NONE)
            continue;
        require(s, words_of(s, flow->buffer, group->inputs[k]), word_of(KIND_GRADIENT, group->inputs[k], part));
        add_part(s, flow->sum, group->inputs[k], part);
    }
}

static void check_reads(struct simulation *s, uint32_t head, enum pass phase)
{
    const struct group *const group = &s->fusion->groups[head];
    const struct value_use *const use = &s->uses[head];
    for (uint32_t k = 0; k < group->input_count; k++)
        if ((k == 0 ? use->in_until : use->others_until) >= phase)
            require_value(s, group->inputs[k]);
    if (use->out_until >= phase && use->out_sign)
        require_signs(s, group->output);
    if (use->out_until >= phase && !use->out_sign)
        require_value(s, group->output);
}

static bool has_flow(const struct simulation *s, uint32_t head)
{
    bool has = false;
    for (uint32_t k = 0; k < s->fusion->groups[head].input_count; k++)
        has = has || s->plan->flows[head][k].buffer != BUFFER_NONE;
    return has;
}

static void run_inputs(struct simulation *s, uint32_t head)
{
    if (!has_flow(s, head))
        return;
    check_reads(s, head, PASS_INPUTS);
    if (!s->uses[head].gradient_early)
        give_gradients(s, head);
    check_reads(s, head, PASS_INPUTS);
    add_sums(s, head);
}

static void run_backward(struct simulation *s, uint32_t head, uint32_t own)
{
    require_gradient_above(s, head, 0);
    check_reads(s, head, PASS_PARAMETERS);
    poison(s, time_parameters(s->plan, head));
    run_inputs(s, head);
    require(s, all_words(s, own), word_of(KIND_OWN, head, 0));
    poison(s, time_inputs(s->plan, head));
}

static void run_all(struct simulation *s, const uint32_t *own)
{
    const uint32_t layer_count = s->fusion->net->layer_count;
    find_parts(s);
    fill(words_of(s, buffer_of(s, 0), 0), word_of(KIND_VALUE, 0, 0));
    for (uint32_t i = 0; i < layer_count; i++)
        if (fusion_is_head(s->fusion, i)) {
            run_forward(s, i, own[i]);
            poison(s, time_forward(i));
        }
    for (uint32_t i = layer_count; s->plan->training && i-- > 0;)
        if (value_memory_needs_grad(s->plan, i))
            run_backward(s, i, own[i]);
}

/* Does every read find what it expects, when the layers do what `really` says? */
static bool simulate(const struct planned *planned, const struct value_use *really)
{
    static struct simulation s;
    s = (struct simulation){
        .plan = &planned->plan,
        .fusion = &planned->fusion,
        .uses = really,
        .bytes = planned->bytes,
        .memory = calloc(1, planned->plan.bytes),
        .is_right = true,
    };
    assert_non_null(s.memory);
    run_all(&s, planned->own);
    free(s.memory);
    return s.is_right;
}

/* ---- properties ---- */

static struct planned planned;

TEST(what_is_read_is_what_was_written_last)
{
    for (uint32_t seed = 0; seed < GRAPHS; seed++)
        for (int training = 0; training <= 1; training++) {
            planned_open(&planned, seed, training != 0);
            if (!simulate(&planned, planned.uses))
                fail_msg("graph %u, training %d", seed, training);
            planned_close(&planned);
        }
}

/* A layer that does something else than it said. */
struct lie { const char *what; bool (*tell)(struct value_use *use); };

static bool reads_its_input_in_backward(struct value_use *use)
{
    const bool is_new = use->in_until == PASS_FORWARD && !use->in_place && !use->is_identity && !use->gradient_early;
    use->in_until = is_new ? PASS_INPUTS : use->in_until;
    return is_new;
}

static bool reads_its_other_inputs_in_backward(struct value_use *use)
{
    const bool is_new = use->others_until == PASS_FORWARD && !use->is_identity && !use->gradient_early;
    use->others_until = is_new ? PASS_INPUTS : use->others_until;
    return is_new;
}

static bool reads_its_result_in_backward(struct value_use *use)
{
    const bool is_new = use->out_until == PASS_FORWARD && !use->is_identity && !use->gradient_early;
    use->out_until = is_new ? PASS_INPUTS : use->out_until;
    use->out_sign = use->out_sign && !is_new;
    return is_new;
}

static bool reads_more_than_signs(struct value_use *use)
{
    const bool is_new = use->out_until != PASS_FORWARD && use->out_sign;
    use->out_sign = use->out_sign && !is_new;
    return is_new;
}

static bool changes_signs(struct value_use *use)
{
    const bool is_new = use->keeps_sign;
    use->keeps_sign = false;
    return is_new;
}

static bool overwrites_where_it_should_add(struct value_use *use)
{
    const bool is_new = use->adds;
    use->adds = false;
    return is_new;
}

static const struct lie lies[] = {
    { "reads its input in backward", reads_its_input_in_backward },
    { "reads its other inputs in backward", reads_its_other_inputs_in_backward },
    { "reads its result in backward", reads_its_result_in_backward },
    { "reads more than signs", reads_more_than_signs },
    { "changes signs", changes_signs },
    { "overwrites where it should add", overwrites_where_it_should_add },
};

/* Every head in turn lies; not all lies do harm. */
static uint32_t count_caught(const struct lie *lie)
{
    static struct value_use really[NET_LAYERS_MAX];
    uint32_t caught = 0;
    for (uint32_t i = 0; i < planned.net->layer_count; i++) {
        for (uint32_t j = 0; j < planned.net->layer_count; j++)
            really[j] = planned.uses[j];
        if (fusion_is_head(&planned.fusion, i) && lie->tell(&really[i]))
            caught += !simulate(&planned, really);
    }
    return caught;
}

TEST(layers_that_do_not_do_what_they_said_are_caught)
{
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        uint32_t caught = 0;
        for (uint32_t seed = 0; seed < GRAPHS && caught < 10; seed++) {
            planned_open(&planned, seed, true);
            caught += count_caught(&lies[i]);
            planned_close(&planned);
        }
        if (caught < 10)
            fail_msg("a layer that %s: caught %u times", lies[i].what, caught);
    }
}

/* How often the value is read, by this head and by those behind it. */
static uint32_t count_reads_from(const struct fusion *fusion, uint32_t head, uint32_t value)
{
    uint32_t count = 0;
    for (uint32_t i = head; i < fusion->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(fusion, i) && k < fusion->groups[i].input_count; k++)
            count += fusion->groups[i].inputs[k] == value;
    return count;
}

/* In training backward reads again what was read in front. */
TEST(nothing_is_written_over_a_value_that_others_read)
{
    uint32_t in_place[2] = { 0, 0 };
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        const bool training = seed % 2 == 0;
        planned_open(&planned, seed, training);
        for (uint32_t i = 0; i < planned.net->layer_count; i++) {
            const struct group *const group = &planned.fusion.groups[i];
            const uint32_t value = group->head == i ? group->inputs[planned.uses[i].in_place_input] : 0;
            if (group->head != i || planned.uses[i].is_identity || value_memory_grows(&planned.plan, i) ||
                planned.plan.values[value].buffer != planned.plan.values[group->output].buffer)
                continue;
            assert_int_equal(count_reads_from(&planned.fusion, training ? 0 : i, value), 1);
            in_place[training]++;
        }
        planned_close(&planned);
    }
    assert_true(in_place[true] > GRAPHS / 8 && in_place[false] > GRAPHS / 8);
}

/* A convolution, a normalisation with a ReLU, a convolution: its input is that of the normalisation. */
TEST(an_absent_value_has_no_buffer_and_its_gradient_has_one)
{
    static const struct batch_norm how = { .decay = 0.9f, .epsilon = 1e-5f, .with_gamma = true };
    struct net *const net = network_net_begin("absent", (struct shape){ 8, 6, 6 }, 4);
    const struct window window = window_square(3, 1, PADDING_SAME);
    const uint32_t conv = (uint32_t)net_conv2d(net, "conv1", NET_INPUT, 8, window, false);
    const uint32_t norm = (uint32_t)net_batch_norm(net, "norm", conv, how), relu = (uint32_t)net_relu(net, "relu", norm);
    network_net_end(net, net_conv2d(net, "conv2", relu, 8, window, false));
    struct value_use uses[NET_LAYERS_MAX] = { { 0 } };
    size_t sizes[NET_LAYERS_MAX + 1], stored[2];
    for (uint32_t v = 0; v <= net->layer_count; v++)
        sizes[v] = 1024;
    for (uint32_t i = 0; i < net->layer_count; i++)
        uses[i] = (struct value_use){ .in_until = PASS_INPUTS };
    for (int absent = 0; absent < 2; absent++) {
        struct fusion fusion;
        struct value_memory memory;
        uses[norm].out_absent = absent != 0;
        assert_int_equal(fusion_open(&fusion, net, all_layers(net), rules, sizeof(rules) / sizeof(rules[0]), true), 0);
        assert_int_equal(value_memory_open(&memory, &fusion, true, sizes, uses), 0);
        assert_int_equal(memory.values[relu + 1].buffer == BUFFER_NONE, absent);
        assert_int_not_equal(memory.values[conv + 1].buffer, BUFFER_NONE);
        assert_int_not_equal(memory.values[relu + 1].gradient, BUFFER_NONE);
        assert_int_equal(value_memory_place(&memory), 0);
        stored[absent] = memory.bytes;
        value_memory_close(&memory);
        fusion_close(&fusion);
    }
    assert_true(stored[1] < stored[0]);
    net_close(net);
}

/* A grown value has the bytes of the widest of its buffer in front of it, and no gradient elsewhere. */
TEST(values_that_grow_lie_in_one_buffer_and_so_do_their_gradients)
{
    uint32_t count = 0;
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        planned_open(&planned, seed, true);
        const struct value *const values = planned.plan.values;
        for (uint32_t v = 0; v <= planned.net->layer_count; v++) {
            const struct value *const widest = &values[values[v].widest];
            if (!value_is_front(&planned.plan, v))
                continue;
            assert_int_equal(values[v].buffer, widest->buffer);
            assert_int_equal(values[v].gradient, widest->gradient);
            assert_int_equal(planned.plan.buffers[values[v].buffer].bytes, planned.bytes[values[v].widest]);
            count++;
        }
        planned_close(&planned);
    }
    assert_true(count > GRAPHS / 40);
}

static size_t rounded(size_t bytes)
{
    return (bytes + LIFETIME_ALIGN - 1) / LIFETIME_ALIGN * LIFETIME_ALIGN;
}

static size_t bytes_held_at(const struct value_memory *plan, uint32_t time)
{
    size_t bytes = 0;
    for (uint32_t b = 0; b < plan->buffer_count; b++)
        if (plan->buffers[b].first <= time && time <= plan->buffers[b].last)
            bytes += rounded(plan->buffers[b].bytes);
    return bytes;
}

TEST(the_block_holds_the_most_at_any_time_and_no_more_than_all)
{
    size_t blocks = 0, sums = 0;
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        planned_open(&planned, seed, true);
        const struct value_memory *const plan = &planned.plan;
        size_t sum = 0;
        for (uint32_t b = 0; b < plan->buffer_count; b++)
            sum += rounded(plan->buffers[b].bytes);
        assert_true(plan->bytes <= sum);
        for (uint32_t time = 0; time <= time_inputs(plan, 0); time++)
            assert_true(bytes_held_at(plan, time) <= plan->bytes);
        blocks += plan->bytes;
        sums += sum;
        planned_close(&planned);
    }
    assert_true(blocks < sums * 3 / 4);
}

TEST(nothing_goes_back_to_where_nothing_is_trained)
{
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        planned_open(&planned, seed, true);
        assert_int_equal(planned.plan.values[0].gradient, BUFFER_NONE);
        for (uint32_t i = 0; i < planned.net->layer_count; i++)
            if (fusion_is_head(&planned.fusion, i) && layer_is_trained(&planned.net->layers[i]))
                assert_true(value_memory_needs_grad(&planned.plan, i));
        planned_close(&planned);
    }
}

TEST(buffers_alive_together_never_overlap)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct random_key key = random_key(seed, RANDOM_DRAW, 2);
        uint64_t drawn = 0;
        struct lifetime buffers[24];
        size_t sum = 0;
        for (size_t i = 0; i < 24; i++) {
            const uint32_t first = (uint32_t)(random_u64(key, drawn++) % 20);
            const size_t bytes = random_u64(key, drawn++) % 5000;
            buffers[i] = (struct lifetime){ bytes, first, first + (uint32_t)(random_u64(key, drawn++) % 6), 0 };
            sum += buffers[i].bytes + LIFETIME_ALIGN;
        }
        const size_t total = lifetime_place(buffers, 24);
        assert_true(total <= sum);
        for (size_t i = 0; i < 24; i++) {
            assert_int_equal(buffers[i].offset % LIFETIME_ALIGN, 0);
            assert_true(buffers[i].bytes == 0 || buffers[i].offset + buffers[i].bytes <= total);
            for (size_t j = 0; j < i; j++)
                assert_true(buffers[i].last < buffers[j].first || buffers[j].last < buffers[i].first ||
                            buffers[i].bytes == 0 || buffers[j].bytes == 0 ||
                            buffers[i].offset + buffers[i].bytes <= buffers[j].offset ||
                            buffers[j].offset + buffers[j].bytes <= buffers[i].offset);
        }
    }
}

TESTS_MAIN(NULL, NULL)
