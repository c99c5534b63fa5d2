/* Pixels stored as numbers instead of encoded images: number types, ranges, and visiting the numbers. */
#ifndef PIPETRAIN_NUMBERS_H
#define PIPETRAIN_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stored_image;

struct number_type {
    const char *name;           /* plural, for messages: "floats", "32-bit integers" */
    uint32_t bytes;             /* size of a number; numbers are little-endian */
    bool is_float;
    /* Convert `count` numbers, which may be unaligned, to floats. Integers above 2^24 are rounded. */
    void (*widen)(const uint8_t *numbers, size_t count, float *floats_out);
};

enum number_kind {
    NUMBER_BYTES, NUMBER_INT16, NUMBER_UINT16, NUMBER_FLOAT16, NUMBER_INT32, NUMBER_FLOAT32, NUMBER_INT64,
    NUMBER_FLOAT64,
    NUMBER_INTEGERS,            /* an int64 list */
    NUMBER_INT8, NUMBER_SWAPPED_FLOAT16, NUMBER_SWAPPED_FLOAT32,        /* not supported; recognised in order to report
                                                                         * them */
    NUMBER_LOW_BYTE, NUMBER_HIGH_BYTE,          /* one byte of each 16-bit number, to recognise the type of the
                                                 * numbers */
    NUMBER_BYTE_DIFFERENCE, NUMBER_BYTE_SUM,    /* 0..2, or 0..1, if one byte of each number is a function of the other
                                                 * byte */
    NUMBER_KIND_COUNT
};
extern const struct number_type number_types[NUMBER_KIND_COUNT];

/* The number of numbers in an image. */
uint64_t number_count(const struct stored_image *image);
/* Call `run` with the numbers of an image, in order and converted to floats, some hundred at a time. */
void number_visit(const struct stored_image *image, void (*run)(void *arg, const float *values, size_t count),
                  void *arg);

#endif
