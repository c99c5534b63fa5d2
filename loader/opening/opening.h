/* A data set being opened, and the problems met on the way. In main's thread only. */
#ifndef PIPETRAIN_OPENING_H
#define PIPETRAIN_OPENING_H

#include <stdint.h>

#include "loader/dataset.h"
#include "loader/shard_counts.h"
#include "loader/shards/text.h"

#define OPENING_PROBLEM_BYTES 2048u

struct opening {
    struct dataset *dataset;
    struct shard_counts *counts;
    struct text problems;
    uint32_t problem_count;
    int result;                 /* of the first problem */
};

/* A problem without a line of its own. */
void opening_fail(struct opening *opening, int result);
/* A line "WHAT: TEXT" about what went wrong with `result`; after some they are counted only. */
void opening_report(struct opening *opening, int result, const char *line);
void opening_report_path(struct opening *opening, int result, const char *path, const char *what);
/* How many lines were left out, if any were. */
void opening_tell_more(struct opening *opening);

#endif
