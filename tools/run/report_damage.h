/* The damaged records of a run: each in quarantine.jsonl when it is met, the first ones at the end for people and
 * in the summary. */
#ifndef PIPETRAIN_REPORT_DAMAGE_H
#define PIPETRAIN_REPORT_DAMAGE_H

#include <stdint.h>
#include <stdio.h>

#include "formats/json.h"
#include "loader/damage.h"
#include "tools/results/run_directory.h"

/* A damaged record is written as {"set", "path", "record", "offset", "count", "problem", and where a checksum differs
 * "stored_crc", "computed_crc"}. */

struct report_damage {
    struct run_directory *directory;    /* lent; NULL: nothing is written */
    struct json line;
};

/* Take the room for lines. 0 or -ENOMEM; report_damage_release after either. */
int report_damage_init(struct report_damage *report, struct run_directory *directory);
/* Accepts a struct of zeros. */
void report_damage_release(struct report_damage *report);
/* A line of quarantine.jsonl. Fits damage_sink. */
void report_damage_add(void *report, const struct damaged_record *record);

/* How many there were, the first of them, a line each, and where all are. Nothing when `total` is 0. From main's
 * thread, as what follows. */
void report_damage_print(const struct damage_list *list, uint64_t total, const struct run_directory *directory,
                         FILE *out);
/* "damage": {"records": [...], "unlisted", and with a directory "file" and, where it does, "file_lacks"}. `list` may
 * be NULL: none are kept. */
void report_damage_write(const struct damage_list *list, const struct run_directory *directory, struct json *json);

#endif
