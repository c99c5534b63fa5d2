/* Labels in the order of training. From main's thread, when the plan of a run is told. */
#include "loader/opening/label_order.h"

#include <errno.h>
#include <math.h>

#include "loader/record.h"

#define PAIRS 64u
#define UNREADABLE_MAX 4u       /* pairs: each record takes its time where a disk fails */
/* What is told is no chance, and is worth to be told. */
#define DEVIATIONS 4.0
#define EXCESS_MIN 0.15

struct look {
    struct order order;
    struct decode_context *context;
    int64_t labels[2 * PAIRS];
    uint32_t count;             /* of labels, two for each pair */
};

static bool read_label(struct look *look, uint64_t position, int64_t *label_out)
{
    struct record_problem problem;
    struct sample_label label;
    uint64_t bytes;
    if (!order_holds(&look->order, position))
        order_enter(&look->order, position);
    const uint64_t id = order_record(&look->order, position);
    const uint8_t *const payload = record_payload(look->context, id, &bytes, &problem);
    if (payload == NULL || sample_read_label(&look->context->dataset->format, payload, bytes, &label, problem.text,
                                             sizeof(problem.text)) < 0)
        return false;
    *label_out = label.stored;
    return true;
}

static int read_pairs(struct look *look)
{
    const struct dataset_options *const options = &look->context->dataset->options;
    const uint64_t places = look->order.shape.count - 1;
    uint32_t unreadable = 0;
    for (uint64_t i = 0; i < PAIRS && unreadable < UNREADABLE_MAX; i++) {
        const uint64_t position = (uint64_t)((__uint128_t)places * i / PAIRS);
        int64_t *const labels = look->labels + look->count;
        if (options->is_unwanted != NULL && atomic_load(options->is_unwanted))
            return -ECANCELED;
        if (read_label(look, position, &labels[0]) && read_label(look, position + 1, &labels[1]))
            look->count += 2;
        else
            unreadable++;
    }
    return 0;
}

/* The share of all pairs of labels, whatever order they are in, that are equal. */
static double equal_share(const struct look *look)
{
    uint32_t equal = 0, pairs = 0;
    for (uint32_t i = 0; i < look->count; i++)
        for (uint32_t j = i + 1; j < look->count; j++, pairs++)
            equal += look->labels[i] == look->labels[j];
    return pairs > 0 ? (double)equal / pairs : 1;
}

int label_order_look(struct label_order *look_out, const struct dataset *dataset, const struct order_shape *shape,
                     uint64_t seed)
{
    struct look look = { .labels = { 0 } };
    int rc = shape->count > 1 ? decode_context_open(&look.context, dataset) : 0;
    if (rc < 0)
        return rc;
    order_init(&look.order, shape, seed, 0);
    if (look.context != NULL)
        rc = read_pairs(&look);
    decode_context_close(look.context);
    if (rc < 0)
        return rc;
    *look_out = (struct label_order){ .pairs = look.count / 2 };
    for (uint32_t i = 0; i < look.count; i += 2)
        look_out->equal += look.labels[i] == look.labels[i + 1];
    const double share = equal_share(&look);
    look_out->expected = look_out->pairs * share;
    look_out->is_one_label = share == 1 && look.count > 0;
    look_out->label = look.labels[0];
    return 0;
}

bool label_order_is_sorted(const struct label_order *look)
{
    const double deviation = sqrt(look->expected * (1 - look->expected / (look->pairs > 0 ? look->pairs : 1)));
    const double excess = look->equal - look->expected;
    return excess > DEVIATIONS * deviation && excess > EXCESS_MIN * look->pairs;
}
