/* One record of a data set, from its bytes to a sample, with everything that may be wrong
 * with it said in words. */
#ifndef PIPETRAIN_RECORD_H
#define PIPETRAIN_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "formats/tfrecord.h"
#include "loader/decode_context.h"

/* What is wrong with a record. */
struct record_problem {
    char text[384];             /* follows "PATH: record N at byte B: " */
    bool is_damage;             /* by record_decode: the frame is not right, else what is in it */
    bool has_crcs;              /* it is that a checksum differs */
    uint32_t stored_crc, computed_crc;
};

/* What was read of a record: the frame, and how many bytes of it, or a negative errno. */
struct record_read { struct dataset_place place; const uint8_t *frame; ssize_t got; };

/* Verify both checksums of what was read and the sample in it, and write the sample. When
 * the frame is not right the record is read again, past every cache: a second read that is right is used
 * and the log says so. 0, with the warning of the image's decoder as the problem's text, "" when there is none; or
 * -EBADMSG with the problem; the target may be written in part then. */
int record_decode(struct decode_context *context, const struct record_read *read, const struct sample_target *target,
                  struct record_problem *problem_out);
/* Read record `id` and decode it, as record_decode. */
int record_load(struct decode_context *context, uint64_t id, const struct sample_target *target,
                struct record_problem *problem_out);
/* The verified payload of record `id`, which lies in the context until its next use, or NULL with
 * the problem. */
const uint8_t *record_payload(struct decode_context *context, uint64_t id, uint64_t *bytes_out,
                              struct record_problem *problem_out);
/* "PATH: record N at byte B: PROBLEM", the path escaped. */
void record_place_describe(const char *path, uint64_t record, uint64_t offset, const struct record_problem *problem,
                           char *text, size_t text_size);
void record_describe(const struct dataset *dataset, uint64_t id, const struct record_problem *problem, char *text,
                     size_t text_size);
/* That a frame failed `check`. */
void record_problem_set(struct record_problem *problem, enum tfrecord_check check,
                        const struct tfrecord_problem *frame_problem);

#endif
