/* Numbers as people read them; results by value, so that several fit into one call. */
#ifndef PIPETRAIN_NUMBER_H
#define PIPETRAIN_NUMBER_H

#include <stdint.h>

struct number { char text[32]; };

/* 600810 -> "600,810" */
struct number number_grouped(uint64_t value);
/* Images a second: 600810.4 -> "600,810"; below 10 in three digits: "5.63", "0.0523"; "-" where it is not finite. */
struct number number_rate(double rate);
/* Digits behind the point that a rate has in a table: 1, below 10 as many as above. */
int number_rate_digits(double rate);
/* A number and its unit in at most so many columns of a table, 6 and the unit's at least: where there is no room, with
 * fewer digits behind the point, then with an exponent. "-" where it is not finite. */
struct number number_cell(double value, int digits, const char *unit, int columns);
/* 1536 -> "1.5 KiB" */
struct number number_bytes(uint64_t bytes);

/* The same, exactly: 67108864 -> "64 MiB", 1000 -> "1000". */
struct number number_exact_bytes(int64_t bytes);

#endif
