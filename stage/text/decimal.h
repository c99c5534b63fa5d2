/* Numbers to and from text, in the C locale whatever the environment says. */
#ifndef PIPETRAIN_DECIMAL_H
#define PIPETRAIN_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number that `text` consists of: digits and nothing else. False for any other text, and for numbers that do not
 * fit. */
bool decimal_u64(const char *text, uint64_t *number_out);
/* The number of the digits at the start of `text`: returns their end. NULL where there are none, or where it does not
 * fit. */
const char *decimal_u64_start(const char *text, uint64_t *number_out);

/* The end of a whole number at the start of `text`, or of a number with optional fraction and exponent; NULL where none
 * begins. A sign may stand in front. */
const char *decimal_integer_end(const char *text);
const char *decimal_end(const char *text);
/* The number at the start of `text`, as strtod reads it. */
double decimal_read(const char *text);

#define DECIMAL_SIZE 32         /* bytes that are enough for any number */
/* The shortest decimal that reads back as `value`; whole numbers below 1e15 with all digits. */
void decimal_write(double value, char *text, size_t text_size);
/* Six digits, or as many more as it takes to read back as `value`. */
void decimal_write_float(float value, char *text, size_t text_size);

#endif
