/* What one process has found when it opened a data set, for others that open the same: the indexes of its shards, as a
 * catalog, and the records from which the format of samples was found. They then open no shard before they read it. Used
 * while data sets are opened. */
#ifndef PIPETRAIN_DATASET_START_H
#define PIPETRAIN_DATASET_START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/shards/catalog.h"

struct dataset;

/* A record that was read to find the format: its frame. */
struct start_record {
    uint64_t id;
    size_t bytes;
    uint8_t *frame;             /* owned */
};

struct start_records {
    struct start_record *records;       /* owned */
    size_t count;
};

/* Find the frame of record `id`; NULL: it is not there. */
const struct start_record *start_records_find(const struct start_records *records, uint64_t id);
/* Add a copy of a frame, unless it is there. 0 or -ENOMEM. */
int start_records_add(struct start_records *records, uint64_t id, const uint8_t *frame, size_t bytes);
/* Accepts a struct of zeros. */
void start_records_release(struct start_records *records);

struct dataset_start {
    struct catalog catalog;     /* its shards are called "NNNNNNNNNN-NAME", by their numbers in the data set */
    int64_t *listed_ns;         /* [catalog.shard_count]: shard_index.listed_ns; owned */
    struct start_records records;
};

/* Pack what was found in an open data set, which was opened with options.keeps_start. 0 and an image that the caller
 * frees; -ENOTSUP: a shard is damaged or missing, so others have to open the data set for themselves; -ENOMEM; or a
 * negative errno of reading the shards' fingerprints. */
int dataset_start_pack(const struct dataset *dataset, uint8_t **image_out, size_t *bytes_out);
/* Unpack an image. Nothing in it is trusted. 0, -EBADMSG or -ENOMEM. */
int dataset_start_parse(struct dataset_start *start_out, const uint8_t *image, size_t bytes);
/* Accepts a struct of zeros. */
void dataset_start_release(struct dataset_start *start);
/* The shard with this number in the data set, whose file has this name; NULL: there it has another name. */
const struct catalog_shard *dataset_start_find(const struct dataset_start *start, uint32_t shard, const char *name);
/* The name of a shard's file, by its number < catalog.shard_count. */
const char *dataset_start_name(const struct dataset_start *start, uint32_t shard);

#endif
