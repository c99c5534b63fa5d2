/* A data set that is being opened, and the problems found so far. Private to dataset_open.c and dataset_probe.c; only
 * main's thread uses it. */
#ifndef PIPETRAIN_DATASET_OPEN_H
#define PIPETRAIN_DATASET_OPEN_H

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
    int result;                 /* result of the first problem; -ESTALE: an index file was wrong */
    bool rebuilds_indexes;      /* do not read index files */
    const char *bad_catalog;    /* the folder whose catalog was last reported as unusable, or NULL */
};

/* Record a failure without a message. */
void opening_fail(struct opening *opening, int result);
/* Add a line "WHAT: LINE"; after PROBLEM_LINES_MAX lines problems are only counted. */
void opening_report(struct opening *opening, int result, const char *line);
void opening_report_path(struct opening *opening, int result, const char *path, const char *what);

/* Find the format of the samples from the first record and, by looking at more records, how raw pixels are to be read.
 * Then decode the first record of every shard, so that a shard of another data set is found before training; but not of
 * shards that a catalog describes, which stay unopened. Records are numbered already. */
void dataset_probe(struct opening *opening);

#endif
