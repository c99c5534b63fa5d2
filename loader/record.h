/* Reading, verifying and decoding one record, and describing what is wrong with it. */
#ifndef PIPETRAIN_RECORD_H
#define PIPETRAIN_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "formats/tfrecord.h"
#include "loader/dataset.h"

/* What one thread needs to decode records of a data set. Opened, used and closed by the same thread, so that its memory
 * is local and library handles are not shared. */
struct decode_context {
    const struct dataset *dataset;
    uint8_t *frame, *spare;     /* each with room for the longest frame of the data set */
    void *codec;                /* of dataset->format.image */
};

/* Host memory of a context. */
size_t decode_context_bytes(const struct dataset *dataset);
/* The data set must stay open until the context is closed. If its format is not known yet, there is no codec: frames
 * can be read, but not decoded. 0 or a negative errno. */
int decode_context_open(struct decode_context **context_out, const struct dataset *dataset);
/* Accepts NULL. */
void decode_context_close(struct decode_context *context);

struct record_problem {
    char text[384];             /* follows "PATH: record N at byte B: " */
    bool is_damage;             /* the frame is wrong, not its content; set by record_decode */
    bool has_crcs;              /* a checksum differs: */
    uint32_t stored_crc, computed_crc;
};

/* The result of reading a record: the frame and how many of its bytes, or a negative errno. */
struct record_read { struct dataset_place place; const uint8_t *frame; ssize_t got; };

/* Verify both checksums and the sample, and write the sample. A wrong frame is read again, past every cache; if the
 * second read is right, it is used and logged. 0, with the image decoder's warning or "" as the problem's text; or
 * -EBADMSG with the problem, when the target may be partly written. */
int record_decode(struct decode_context *context, const struct record_read *read, const struct sample_target *target,
                  struct record_problem *problem_out);
/* Read record `id`, then as record_decode. */
int record_load(struct decode_context *context, uint64_t id, const struct sample_target *target,
                struct record_problem *problem_out);
/* The verified payload of record `id`, valid until the context is used again; or NULL with the problem. */
const uint8_t *record_payload(struct decode_context *context, uint64_t id, uint64_t *bytes_out,
                              struct record_problem *problem_out);
/* "PATH: record N at byte B: PROBLEM", the path escaped. */
void record_place_describe(const char *path, uint64_t record, uint64_t offset, const struct record_problem *problem,
                           char *text, size_t text_size);
void record_describe(const struct dataset *dataset, uint64_t id, const struct record_problem *problem, char *text,
                     size_t text_size);
/* Set the problem to a frame that failed `check`. */
void record_problem_set(struct record_problem *problem, enum tfrecord_check check,
                        const struct tfrecord_problem *frame_problem);

#endif
