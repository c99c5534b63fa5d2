/* A histogram with buckets of equal width between the least and the largest number. Pure, any thread. */
#ifndef PIPETRAIN_HISTOGRAM_H
#define PIPETRAIN_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 30u

/* Numbers that are not finite are ignored everywhere. */
struct histogram {
    uint64_t count;
    double least, most, sum, squares;           /* 0 where there are no numbers; squares: the sum of squares */
    uint32_t buckets;                           /* one where all numbers are the same */
    double limits[HISTOGRAM_BUCKETS];           /* the upper end of bucket i, inclusive */
    double counts[HISTOGRAM_BUCKETS];
};

/* Of floats[i] * factor, factor > 0. */
void histogram_count(struct histogram *histogram, const float *floats, size_t count, double factor);

#endif
