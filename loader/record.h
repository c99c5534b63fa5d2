/* One record of a data set, from its bytes to a sample, with everything that may be wrong
 * with it said in words. */
#ifndef PIPETRAIN_RECORD_H
#define PIPETRAIN_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "loader/decode_context.h"

#define RECORD_WHAT_BYTES 384

/* What was read of a record: the frame, and how many bytes of it, or a negative errno. */
struct record_read { struct dataset_place place; const uint8_t *frame; ssize_t got; };

/* Verify both checksums of what was read and the sample in it, and write the sample. When
 * the frame is not right the record is read again, past every cache: a second read that is right is used
 * and the log says so. 0, or -EBADMSG with the reason in `what`; the target may be written in
 * part then. */
int record_decode(struct decode_context *context, const struct record_read *read, const struct sample_target *target,
                  char what[RECORD_WHAT_BYTES]);
/* Read record `id` and decode it. */
int record_load(struct decode_context *context, uint64_t id, const struct sample_target *target,
                char what[RECORD_WHAT_BYTES]);
/* The verified payload of record `id`, which lies in the context until its next use, or NULL with
 * the reason in `what`. */
const uint8_t *record_payload(struct decode_context *context, uint64_t id, uint64_t *bytes_out,
                              char what[RECORD_WHAT_BYTES]);
/* "PATH: record N at byte B: WHAT" */
void record_describe(const struct dataset *dataset, uint64_t id, const char *what, char *text, size_t text_size);

#endif
