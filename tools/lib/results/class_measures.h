/* Precision, recall and F1 of classes and their means, computed from counts; the definitions are those of
 * scikit-learn's precision_recall_fscore_support with zero_division = 0, and of its balanced_accuracy_score. Pure
 * functions. */
#ifndef PIPETRAIN_CLASS_MEASURES_H
#define PIPETRAIN_CLASS_MEASURES_H

#include <stdint.h>

/* Counts of one class: its samples, the samples predicted as this class, and the samples in both. */
struct class_counts { uint64_t samples, predicted, correct; };

/* Shares in [0, 1]; precision is correct / predicted, recall is correct / samples, F1 is their harmonic mean. A share
 * whose denominator is 0 is 0. */
struct class_measures { double precision, recall, f1; };
struct class_measures class_measures_of(const struct class_counts *counts);

/* Measures of all classes together. */
struct mean_measures {
    struct class_measures macro;        /* means over the classes that have samples or are predicted */
    struct class_measures weighted;     /* means over the classes, weighted by their numbers of samples */
    double balanced_accuracy;           /* mean recall of the classes that have samples */
    uint64_t largest;                   /* the class with most samples, the first of equal ones */
    double largest_share;               /* accuracy of always predicting that class */
};
/* `counts` has an entry for each class. Without samples all numbers are 0. */
struct mean_measures mean_measures_of(const struct class_counts *counts, uint32_t classes);

#endif
