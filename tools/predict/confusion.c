/* Counting by what samples are and what they are taken for. */
#include "tools/predict/confusion.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "tools/predict/ranking.h"

#define FIVE 5u

int confusion_init(struct confusion *confusion, uint32_t classes, uint64_t samples)
{
    *confusion = (struct confusion){ .classes = classes, .room = samples };
    confusion->cells = calloc(samples + 1, sizeof(*confusion->cells));
    return confusion->cells != NULL ? 0 : -ENOMEM;
}

void confusion_release(struct confusion *confusion)
{
    free(confusion->cells);
    *confusion = (struct confusion){ .classes = 0 };
}

void confusion_add(struct confusion *confusion, const float *logits, uint32_t label)
{
    const uint32_t best = ranking_best(logits, confusion->classes);
    assert(confusion->cell_count < confusion->room && label < confusion->classes);
    confusion->cells[confusion->cell_count++] = (struct confusion_cell){ label, best, 1 };
    confusion->samples++;
    confusion->correct += best == label;
    confusion->among_five += best == label || ranking_place(logits, confusion->classes, label) < FIVE;
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

/* The first cell of a label that is not lower. */
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
        score.samples += cell->samples;
        if (cell->predicted == label)
            score.correct = cell->samples;
        else if (score.mostly == NULL || cell->samples > score.mostly->samples)
            score.mostly = cell;
    }
    return score;
}
