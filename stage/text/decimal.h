/* Numbers to and from text, always in the C locale. */
#ifndef PIPETRAIN_DECIMAL_H
#define PIPETRAIN_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parse a text that consists only of digits. False for other texts, and for numbers that do not fit. */
bool decimal_u64(const char *text, uint64_t *number_out);
/* Parse the digits at the start of `text`. Returns their end; NULL if there are none or the number does not fit. */
const char *decimal_u64_start(const char *text, uint64_t *number_out);

/* The end of an integer at the start of `text`, and of a number with optional fraction and exponent; NULL if there is
 * none. Both may have a sign. */
const char *decimal_integer_end(const char *text);
const char *decimal_end(const char *text);
/* Parse the number at the start of `text` as strtod does. */
double decimal_read(const char *text);

#define DECIMAL_SIZE 32         /* bytes that suffice for any number */
/* Write the shortest decimal that parses to `value`; whole numbers below 1e15 have all digits. */
void decimal_write(double value, char *text, size_t text_size);
/* Write six digits, or more if they are needed to parse to `value`. */
void decimal_write_float(float value, char *text, size_t text_size);

#endif
