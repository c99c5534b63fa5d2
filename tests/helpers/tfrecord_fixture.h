/* Small TFRecord sets for tests. Image and label are functions of a record's id, so a test can check what it reads. */
#ifndef PIPETRAIN_TFRECORD_FIXTURE_H
#define PIPETRAIN_TFRECORD_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "loader/shards/shard_index.h"
#include "tests/helpers/file_fixture.h"

#define FIXTURE_HEIGHT 4u
#define FIXTURE_WIDTH 3u
#define FIXTURE_CHANNELS 2u
#define FIXTURE_SAMPLE_BYTES 24u
#define FIXTURE_CLASSES 10u
#define FIXTURE_FRAME_MAX 512u

void fixture_pixels(uint64_t id, uint8_t pixels_out[FIXTURE_SAMPLE_BYTES]);
int32_t fixture_label(uint64_t id);

/* Write the frame of a payload, or of record `id`. Returns its size. */
size_t fixture_frame(const uint8_t *payload, size_t bytes, uint8_t *out);
size_t fixture_record(uint64_t id, uint8_t *out);
/* Write the frame of an Example with this image and this label. Returns its size. */
size_t fixture_example(const char *image_key, const void *image, size_t image_bytes, const char *label_key,
                       int64_t label, uint8_t *out);

/* Write the frames of records 0, 1 and 2 in sequence. ends_out: where each ends. Returns their size. */
size_t fixture_three(uint8_t *out, size_t ends_out[3]);
/* Write a shard of records [first_id, first_id + count). */
void fixture_write_shard(const char *path, uint64_t first_id, uint32_t count);
/* Write `shard_count` shards train-NNNNN-of-NNNNN with record_count records together, unevenly distributed. */
void fixture_write_set(const char *place, uint32_t shard_count, uint32_t record_count);

/* Options for fixture records, no index cache. */
struct dataset_options fixture_options(const char *pattern);
/* Open a set; fails the test with the problem. */
struct dataset *fixture_open(const struct dataset_options *options);
/* Write a set of fixture records in the subfolder `name` of the fixture's folder, as fixture_write_set, and open it. */
struct dataset *fixture_open_set(const char *name, uint32_t shard_count, uint32_t record_count);
/* Opening fails with a message that contains both texts. */
void fixture_assert_refused(const struct dataset_options *options, const char *first, const char *second);
/* Load record `id` of the set. */
void fixture_load(const struct dataset *dataset, uint64_t id, uint8_t *pixels_out, int32_t *label_out);

/* shard_index_open for a file. */
int fixture_open_index(struct shard_index *index, const char *path, bool skip_damage, bool use_cache, char *problem,
                       size_t problem_size);
/* The same; fails the test with the problem. */
void fixture_assert_index_opens(struct shard_index *index, const char *path, bool skip_damage, bool use_cache);

#endif
