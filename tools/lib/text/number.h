/* Format numbers for people. Results are returned by value, so that several can be used in one call. */
#ifndef PIPETRAIN_NUMBER_H
#define PIPETRAIN_NUMBER_H

#include <stdint.h>

struct number { char text[32]; };

/* 600810 -> "600,810" */
struct number number_grouped(uint64_t value);
/* Images per second: 600810.4 -> "600,810"; three digits below 10: "5.63", "0.0523"; "-" if it is not finite. */
struct number number_rate(double rate);
/* Decimal places of a rate in a table: 1, or below 10 as many as in number_rate. */
int number_rate_digits(double rate);
/* A number and its unit in at most `columns` columns, which are at least 6 plus the unit: with fewer decimal places,
 * and then with an exponent, if needed. "-" if it is not finite. */
struct number number_cell(double value, int digits, const char *unit, int columns);
/* 1536 -> "1.5 KiB" */
struct number number_bytes(uint64_t bytes);

/* As number_bytes, but exact: 67108864 -> "64 MiB", 1000 -> "1000". */
struct number number_exact_bytes(int64_t bytes);

#endif
