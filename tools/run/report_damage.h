/* The damaged records of a run, for people and for the summary. From main's thread. */
#ifndef PIPETRAIN_REPORT_DAMAGE_H
#define PIPETRAIN_REPORT_DAMAGE_H

#include <stdint.h>
#include <stdio.h>

#include "formats/json.h"
#include "loader/damage_list.h"

/* How many there were, and the first of them, a line each. Nothing when `total` is 0. */
void report_damage_print(const struct damage_list *list, uint64_t total, FILE *out);
/* "damage": {"records": [{"set", "path", "record", "offset", "count", "problem", and where a checksum
 * differs "stored_crc", "computed_crc"}], "unlisted"}. `list` may be NULL: there are none. */
void report_damage_write(const struct damage_list *list, struct json *json);

#endif
