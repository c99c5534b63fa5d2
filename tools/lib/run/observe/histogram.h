/* A histogram with buckets of equal width between the least and the largest number. Pure, any thread. */
#ifndef PIPETRAIN_HISTOGRAM_H
#define PIPETRAIN_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 30u

/* Numbers that are not finite are in no count or sum. */
struct histogram {
    uint64_t count;
    double least, most, sum, squares;           /* 0 where there are no numbers; squares: the sum of squares */
    uint32_t buckets;                           /* number of buckets; 1 if all numbers are equal */
    double limits[HISTOGRAM_BUCKETS];           /* the upper end of bucket i, inclusive */
    double counts[HISTOGRAM_BUCKETS];
};

/* Make the histogram of floats[i] * factor, factor > 0. */
void histogram_count(struct histogram *histogram, const float *floats, size_t count, double factor);

#endif
