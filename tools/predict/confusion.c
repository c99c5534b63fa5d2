/* Ranks logits, and counts predictions by true and predicted class. Called by the main thread. */
#include "tools/predict/confusion.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- logits ---- */

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

uint32_t ranking_position(const float *logits, uint32_t classes, uint32_t label)
{
    uint32_t place = 0;
    for (uint32_t c = 0; c < classes; c++)
        place += is_before(logits, c, label);
    return place;
}

/* An insertion sort that keeps only the first `count` classes. */
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

/* ---- the confusion matrix ---- */

#define FIVE 5u

int confusion_init(struct confusion *confusion, uint32_t classes, uint64_t samples)
{
    *confusion = (struct confusion){ .classes = classes, .room = samples };
    confusion->cells = calloc(samples + 1, sizeof(*confusion->cells));
    confusion->counts = calloc((size_t)classes + 1, sizeof(*confusion->counts));
    return confusion->cells != NULL && confusion->counts != NULL ? 0 : -ENOMEM;
}

void confusion_release(struct confusion *confusion)
{
    free(confusion->cells);
    free(confusion->counts);
    *confusion = (struct confusion){ .classes = 0 };
}

void confusion_add(struct confusion *confusion, const float *logits, uint32_t label)
{
    const uint32_t best = ranking_best(logits, confusion->classes);
    assert(confusion->cell_count < confusion->room && label < confusion->classes);
    confusion->cells[confusion->cell_count++] = (struct confusion_cell){ label, best, 1 };
    confusion->counts[label].samples++;
    confusion->counts[best].predicted++;
    confusion->counts[label].correct += best == label;
    confusion->samples++;
    confusion->correct += best == label;
    confusion->among_five += best == label || ranking_position(logits, confusion->classes, label) < FIVE;
}

static int compare(const void *left, const void *right)
{
    const struct confusion_cell *const a = left, *const b = right;
    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    return (a->predicted > b->predicted) - (a->predicted < b->predicted);
}

void confusion_finish(struct confusion *confusion)
{
    struct confusion_cell *const cells = confusion->cells;
    size_t count = 0;
    qsort(cells, confusion->cell_count, sizeof(*cells), compare);
    for (size_t i = 0; i < confusion->cell_count; i++)
        if (count > 0 && compare(&cells[count - 1], &cells[i]) == 0)
            cells[count - 1].samples += cells[i].samples;
        else
            cells[count++] = cells[i];
    confusion->cell_count = count;
}

/* The first cell with a label of at least `label`. */
static size_t find_label(const struct confusion *confusion, uint32_t label)
{
    size_t low = 0, high = confusion->cell_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (confusion->cells[middle].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct class_score confusion_class(const struct confusion *confusion, uint32_t label)
{
    const size_t first = find_label(confusion, label);
    struct class_score score = { .cells = confusion->cells + first };
    for (size_t i = first; i < confusion->cell_count && confusion->cells[i].label == label; i++) {
        const struct confusion_cell *const cell = &confusion->cells[i];
        score.cell_count++;
        if (cell->predicted != label && (score.mostly == NULL || cell->samples > score.mostly->samples))
            score.mostly = cell;
    }
    return score;
}
