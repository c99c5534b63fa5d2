/* Counts what towers send each other with and without model.parts. */
#include "tools/lib/run/parts_gain.h"

#include <stdio.h>

#include "compute/part_loss.h"

/* The numbers that updates change: gradients of layers first .. end - 1. */
static uint64_t count_gradients(const struct net *net, uint32_t first, uint32_t end)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        if (parameter_is_updated(parameter) && parameter->layer >= first && parameter->layer < end)
            count += parameter->count;
    }
    return count;
}

/* What all towers together hold of a sample in exchanges: the inputs of every dense layer and, if it is wanted, their
 * gradient; the statistics of all parts; and the label. */
static uint64_t row_bytes(const struct head *head)
{
    uint64_t bytes = head->parts * sizeof(struct part_stats) + sizeof(struct mixed_label);
    for (uint32_t i = 0; i < head->stage_count; i++)
        bytes += (head->stages[i].sends_gradient ? 2 : 1) * sizeof(float) * head->stages[i].inputs;
    return bytes;
}

/* What each of `towers` towers sends of `bytes` that all get from each other. */
static uint64_t sent(uint64_t bytes, uint32_t towers)
{
    return bytes / towers * (towers - 1);
}

bool parts_gain_find(struct parts_gain *gain_out, const struct net *net, const struct parts_step *step)
{
    struct unsupported_reason reason;
    struct head head;
    if (head_find(&head, net, step->parts, &reason) != 0)
        return false;
    const uint64_t trunk = 2 * sizeof(float) * count_gradients(net, 0, head.first);
    const uint64_t dense = 2 * sizeof(float) * count_gradients(net, head.first, net->layer_count);
    const uint64_t row = row_bytes(&head);
    *gain_out = (struct parts_gain){
        .head = head,
        .bytes = sent(trunk + step->rows * row, step->towers),
        .replicated_bytes = sent(trunk + dense, step->towers),
        .batch = (uint32_t)((dense + row / 2) / row),
    };
    return true;
}

void parts_gain_layers(const struct head *head, const struct net *net, char text[PARTS_TEXT_SIZE])
{
    size_t used = 0;
    for (uint32_t i = 0; i < head->stage_count && used < PARTS_TEXT_SIZE; i++)
        used += (size_t)snprintf(text + used, PARTS_TEXT_SIZE - used, "%s%s",
                                 i == 0 ? "" : i + 1 == head->stage_count ? " and " : ", ",
                                 net->layers[head->stages[i].first].name);
}

/* In decimal units, as bandwidths are. */
static void write_bytes(uint64_t bytes, char text[32])
{
    if (bytes < 1000000)
        snprintf(text, 32, "%.1f kB", (double)bytes / 1e3);
    else if (bytes < 1000000000)
        snprintf(text, 32, "%.1f MB", (double)bytes / 1e6);
    else
        snprintf(text, 32, "%.2f GB", (double)bytes / 1e9);
}

void parts_gain_describe(const struct parts_gain *gain, char text[PARTS_TEXT_SIZE])
{
    char with[32], without[32];
    write_bytes(gain->bytes, with);
    write_bytes(gain->replicated_bytes, without);
    snprintf(text, PARTS_TEXT_SIZE, "a tower sends %s in a step instead of %s", with, without);
}
