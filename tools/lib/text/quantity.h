/* Parses sizes and durations as people write them: the only grammar for all settings and options. Pure functions, any
 * thread. */
#ifndef PIPETRAIN_QUANTITY_H
#define PIPETRAIN_QUANTITY_H

#include <stdint.h>

/* For messages: the accepted sizes. */
#define QUANTITY_BYTES "bytes, or a number with a unit such as 64 KiB, 1.5 GiB or 64M; 500 MB is decimal"
#define QUANTITY_SECONDS "seconds, or numbers with units such as 90 s, 15 min, 1.5 h or 1h30m"

/* A size: a number and, after an optional blank, a unit in any case. B or none: bytes; KiB, MiB, GiB, TiB or K, M, G,
 * T: powers of 1024; kB, MB, GB, TB: powers of 1000. A fraction is rounded down to bytes. 0, -EINVAL (not a size, or a
 * fraction of bytes without a unit) or -ERANGE (it does not fit). */
int quantity_bytes(const char *text, uint64_t *bytes_out);
/* A duration: a number of seconds, or numbers with units, larger units first (1h30m). Units: d, h, min, s, ms, also as
 * words or unambiguous single letters. 0, -EINVAL (not a duration) or -ERANGE (beyond QUANTITY_SECONDS_MAX). */
#define QUANTITY_SECONDS_MAX 1e12
int quantity_seconds(const char *text, double *seconds_out);
/* A duration in whole seconds; -EDOM: it is not a whole number. */
int quantity_whole_seconds(const char *text, uint64_t *seconds_out);

#endif
