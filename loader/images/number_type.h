/* The types of the numbers that pixels are stored as where they are not encoded. */
#ifndef PIPETRAIN_NUMBER_TYPE_H
#define PIPETRAIN_NUMBER_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stored_image;

struct number_type {
    const char *name;           /* of several, for the plan and messages: "floats", "32-bit integers" */
    uint32_t bytes;             /* of each, little-endian */
    bool is_float;
    /* Write `count` numbers, which may be stored at any address, as floats. Integers above 2^24 are rounded. */
    void (*widen)(const uint8_t *numbers, size_t count, float *floats_out);
};

enum number_kind {
    NUMBER_BYTES, NUMBER_INT16, NUMBER_UINT16, NUMBER_FLOAT16, NUMBER_INT32, NUMBER_FLOAT32, NUMBER_INT64,
    NUMBER_FLOAT64,
    NUMBER_INTEGERS,            /* int64 as a list */
    NUMBER_INT8, NUMBER_SWAPPED_FLOAT16, NUMBER_SWAPPED_FLOAT32,        /* not supported; recognised, to refuse them */
    NUMBER_LOW_BYTE, NUMBER_HIGH_BYTE,          /* of 16-bit numbers, to find out what the numbers are */
    NUMBER_BYTE_DIFFERENCE, NUMBER_BYTE_SUM,    /* 0..2, 0..1 where one byte of each number follows from the other */
    NUMBER_KIND_COUNT
};
extern const struct number_type number_types[NUMBER_KIND_COUNT];

/* How many numbers an image has: of its list, or of its bytes where those are whole numbers of its type. */
uint64_t number_count(const struct stored_image *image);
/* Call `run` with an image's numbers in their order, some hundred at a time, as floats. */
void number_visit(const struct stored_image *image, void (*run)(void *arg, const float *values, size_t count),
                  void *arg);

#endif
