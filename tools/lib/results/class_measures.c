/* Measures of a classification by class. */
#include "tools/lib/results/class_measures.h"

static double share(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

struct class_measures class_measures_of(const struct class_counts *counts)
{
    return (struct class_measures){
        .precision = share(counts->correct, counts->predicted),
        .recall = share(counts->correct, counts->samples),
        .f1 = share(2 * counts->correct, counts->predicted + counts->samples),
    };
}

static void add(struct class_measures *sum, const struct class_measures *more, double weight)
{
    sum->precision += weight * more->precision;
    sum->recall += weight * more->recall;
    sum->f1 += weight * more->f1;
}

static struct class_measures divided(const struct class_measures *sum, double by)
{
    const struct class_measures nothing = { 0, 0, 0 };
    return by > 0 ? (struct class_measures){ sum->precision / by, sum->recall / by, sum->f1 / by } : nothing;
}

struct mean_measures mean_measures_of(const struct class_counts *counts, uint32_t classes)
{
    struct class_measures macro = { 0, 0, 0 }, weighted = { 0, 0, 0 };
    struct mean_measures means = { .largest = 0 };
    uint64_t samples = 0;
    uint32_t present = 0, mentioned = 0;
    double recalls = 0;
    for (uint32_t c = 0; c < classes; c++) {
        const struct class_measures one = class_measures_of(&counts[c]);
        samples += counts[c].samples;
        present += counts[c].samples > 0;
        mentioned += counts[c].samples > 0 || counts[c].predicted > 0;
        recalls += one.recall;
        add(&macro, &one, 1);
        add(&weighted, &one, (double)counts[c].samples);
        if (counts[c].samples > counts[means.largest].samples)
            means.largest = c;
    }
    means.macro = divided(&macro, mentioned);
    means.weighted = divided(&weighted, (double)samples);
    means.balanced_accuracy = present > 0 ? recalls / present : 0;
    means.largest_share = classes > 0 ? share(counts[means.largest].samples, samples) : 0;
    return means;
}
