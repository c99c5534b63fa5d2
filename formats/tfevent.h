/* Events for TensorBoard (doc/observing.md). Each event is a record of an event file: a TFRecord whose payload is an
 * Event message. An event is begun, receives its values and is framed; the caller then writes it with one call. Used by
 * one thread at a time.
 *
 *     tfevent_begin(&event, now, step);
 *     tfevent_scalar(&event, "loss", 0.5f);
 *     const uint8_t *record = tfevent_frame(&event, &bytes); */
#ifndef PIPETRAIN_TFEVENT_H
#define PIPETRAIN_TFEVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/protobuf.h"

struct tfevent {
    struct proto proto;         /* the record: space for the frame's header, then the payload, then the frame's
                                 * footer */
    bool has_summary;           /* a Summary message is open */
};

void tfevent_init(struct tfevent *event);
void tfevent_release(struct tfevent *event);
/* Reserve memory for a record of `bytes`, so that records up to this size allocate nothing. 0 or -ENOMEM. */
int tfevent_reserve(struct tfevent *event, size_t bytes);

/* Begin a new event with this time, in seconds since 1970, and this step; discards the previous event. */
void tfevent_begin(struct tfevent *event, double wall_time, uint64_t step);
/* Write the file version, the only content of the first event of every file. */
void tfevent_version(struct tfevent *event);
/* Mark the start of a process at the event's step, the only content of its event: readers then discard this run's
 * values from that step on in earlier files. */
void tfevent_start(struct tfevent *event);

/* An event may have any number of values. `tag` is UTF-8; TensorBoard displays only [A-Za-z0-9_./-] well. */
void tfevent_scalar(struct tfevent *event, const char *tag, float value);
/* A histogram: bucket i counts the numbers that are at most limits[i] and above limits[i - 1]. */
struct tfevent_histogram {
    double least, most, count, sum, squares;    /* statistics of the numbers; squares: the sum of their squares */
    const double *limits, *counts;
    size_t buckets;
};
void tfevent_histogram(struct tfevent *event, const char *tag, const struct tfevent_histogram *histogram);
/* Add a text in Markdown. */
void tfevent_text(struct tfevent *event, const char *tag, const char *text);

/* Write the hyperparameters of a session between tfevent_open_session and tfevent_close_session. Readers keep only the
 * first session and the first end of a run, so the end may be written only after the last event. */
void tfevent_open_session(struct tfevent *event);
void tfevent_number(struct tfevent *event, const char *name, double value);
void tfevent_words(struct tfevent *event, const char *name, const char *value);
void tfevent_flag(struct tfevent *event, const char *name, bool value);
/* End the hyperparameters. TensorBoard shows the sessions of one group as one. */
void tfevent_close_session(struct tfevent *event, const char *group, double time);
/* Record that the run finished successfully. */
void tfevent_end_session(struct tfevent *event, double time);

/* The complete record with its frame, valid until the next call; NULL when out of memory. */
const uint8_t *tfevent_frame(struct tfevent *event, size_t *bytes_out);

#endif
