/* Order among logits. Called by main for every sample. */
#include "tools/predict/ranking.h"

#include <math.h>
#include <stdbool.h>

uint32_t ranking_best(const float *logits, uint32_t classes)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        if (!(logits[c] <= logits[best]))
            best = c;
    return best;
}

static bool is_before(const float *logits, uint32_t one, uint32_t other)
{
    return logits[one] > logits[other] || (logits[one] == logits[other] && one < other);
}

uint32_t ranking_place(const float *logits, uint32_t classes, uint32_t label)
{
    uint32_t place = 0;
    for (uint32_t c = 0; c < classes; c++)
        place += is_before(logits, c, label);
    return place;
}

/* Logits of a few classes are kept in order while all pass by. */
static void find_top(const float *logits, uint32_t classes, uint32_t count, struct ranked *top_out)
{
    uint32_t filled = 0;
    for (uint32_t c = 0; c < classes; c++) {
        uint32_t at = filled;
        while (at > 0 && is_before(logits, c, top_out[at - 1].class))
            at--;
        if (at == count)
            continue;
        filled += filled < count;
        for (uint32_t i = filled - 1; i > at; i--)
            top_out[i] = top_out[i - 1];
        top_out[at].class = c;
    }
}

void ranking_top(const float *logits, uint32_t classes, uint32_t count, struct ranked *top_out)
{
    const double shift = (double)logits[ranking_best(logits, classes)];
    double sum = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp((double)logits[c] - shift);
    find_top(logits, classes, count, top_out);
    for (uint32_t i = 0; i < count; i++)
        top_out[i].probability = exp((double)logits[top_out[i].class] - shift) / sum;
}
