/* One record of a data set, from its bytes to a sample, with everything that may be wrong
 * with it said in words. */
#ifndef PIPETRAIN_RECORD_H
#define PIPETRAIN_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "loader/dataset.h"

#define RECORD_WHAT_BYTES 384

/* Where a sample goes. */
struct record_target { uint8_t *pixels; int32_t *label; };

/* What was read of a record: the frame, and how many bytes of it, or a negative errno. */
struct record_read { struct dataset_place place; const uint8_t *frame; ssize_t got; };

/* Verify both checksums of what was read and the sample in it, and write the sample. When
 * the frame is not right the record is read again, past the page cache, into `spare` (at
 * least as long as the longest frame): a second read that is right is used and the log
 * says so. 0, or -EBADMSG with the reason in `what`; the target may be written in part
 * then. */
int record_decode(const struct dataset *dataset, const struct record_read *read, const struct record_target *target,
                  uint8_t *spare, char what[RECORD_WHAT_BYTES]);
/* Bytes of scratch memory record_load needs. */
size_t record_scratch_bytes(const struct dataset *dataset);
/* Read record `id` and decode it. */
int record_load(const struct dataset *dataset, uint64_t id, const struct record_target *target, uint8_t *scratch,
                char what[RECORD_WHAT_BYTES]);
/* The verified payload of record `id`, read into `scratch`, or NULL with the reason in `what`. */
const uint8_t *record_payload(const struct dataset *dataset, uint64_t id, uint8_t *scratch, uint64_t *bytes_out,
                              char what[RECORD_WHAT_BYTES]);
/* "PATH: record N at byte B: WHAT" */
void record_describe(const struct dataset *dataset, uint64_t id, const char *what, char *text, size_t text_size);

#endif
