/* Decimal numbers as people write them, in the C locale whatever the environment says. */
#ifndef PIPETRAIN_DECIMAL_H
#define PIPETRAIN_DECIMAL_H

#include <stddef.h>

/* The end of a whole number at the start of `text`, or of a number with optional fraction and exponent; NULL
 * where none begins. A sign may stand in front. */
const char *decimal_integer_end(const char *text);
const char *decimal_end(const char *text);
/* The number at the start of `text`, as strtod has it. */
double decimal_read(const char *text);

#define DECIMAL_SIZE 32         /* room that is enough for any number */
/* The shortest decimal that reads back as `value`; of whole numbers below 1e15 all digits. */
void decimal_write(double value, char *text, size_t text_size);
/* Six digits, or as many more as it takes to read back as `value`. */
void decimal_write_float(float value, char *text, size_t text_size);

#endif
