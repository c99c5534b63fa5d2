/* Reading, verifying and decoding one record, and describing what is wrong with it. */
#ifndef PIPETRAIN_RECORD_H
#define PIPETRAIN_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "formats/tfrecord.h"
#include "loader/dataset.h"
#include "loader/images/scratch.h"

/* A thread's memory for decoding records of a data set. Opened, used and closed by the same thread, so that its memory
 * is local and library handles are not shared. */
struct decode_context {
    const struct dataset *dataset;
    uint8_t *frame, *spare;     /* each has room for the longest frame of the data set */
    void *codec;                /* codec of dataset->format.image */
    struct scratch room;        /* for augment_apply */
    const struct start_records *given;  /* NULL, or records that need not be read; set by dataset_probe.c */
    struct start_records *kept; /* NULL, or where records that are read are kept; set by dataset_probe.c */
};

/* The host memory of a context. */
size_t decode_context_bytes(const struct dataset *dataset);
/* The data set must stay open until the context is closed. If its format is not yet known there is no codec: frames can
 * be read but not decoded. 0 or a negative errno. */
int decode_context_open(struct decode_context **context_out, const struct dataset *dataset);
/* Accepts NULL. */
void decode_context_close(struct decode_context *context);

struct record_problem {
    char text[384];             /* follows "PATH: record N at byte B: " */
    bool is_damage;             /* the frame is wrong, not the content of its payload; set by record_decode */
    bool has_crcs;              /* a checksum differs from the stored one */
    uint32_t stored_crc, computed_crc;
};

/* The result of reading a record: its frame and the number of bytes read, or a negative errno in `got`. */
struct record_read { struct dataset_place place; const uint8_t *frame; ssize_t got; };

/* Verify both checksums, decode the sample to the target and augment it. A frame that fails is read again, bypassing
 * all caches; if the second read is valid, it is used and this is logged. 0, with the image decoder's warning or "" as
 * the problem's text; or -EBADMSG or -ENOMEM with the problem: the target may be partly written then. */
int record_decode(struct decode_context *context, const struct record_read *read, const struct sample_target *target,
                  struct record_problem *problem_out);
/* Read record `id`, then do as record_decode. */
int record_load(struct decode_context *context, uint64_t id, const struct sample_target *target,
                struct record_problem *problem_out);
/* Read the verified payload of record `id`, valid until the next use of the context; NULL with the problem. */
const uint8_t *record_payload(struct decode_context *context, uint64_t id, uint64_t *bytes_out,
                              struct record_problem *problem_out);
/* Describe a problem: "PATH: record N at byte B: PROBLEM", with the path escaped. */
void record_place_describe(const char *path, uint64_t record, uint64_t offset, const struct record_problem *problem,
                           char *text, size_t text_size);
void record_describe(const struct dataset *dataset, uint64_t id, const struct record_problem *problem, char *text,
                     size_t text_size);
/* Set the problem for a frame that failed `check`. */
void record_problem_set(struct record_problem *problem, enum tfrecord_check check,
                        const struct tfrecord_problem *frame_problem);

#endif
