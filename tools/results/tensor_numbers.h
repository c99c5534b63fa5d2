/* The numbers of a tensor in a safetensors file as floats. */
#ifndef PIPETRAIN_TENSOR_NUMBERS_H
#define PIPETRAIN_TENSOR_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a number of the type: of "F32", "F16", "BF16" and "F64"; 0: it is none of these. */
size_t tensor_number_bytes(const char *dtype);
/* `count` numbers of such a type to floats, which are exact but of F64: rounded to the nearest. Nothing of them
 * overlaps. */
void tensor_numbers(const char *dtype, const void *numbers, float *floats_out, size_t count);

#endif
