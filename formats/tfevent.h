/* Events as TensorBoard reads them (doc/observing.md): each is a record of an event file, a TFRecord whose payload is
 * an Event message. An event is begun, gets values, and is framed; then it is written with one call. Used by one thread
 * at a time.
 *
 *     tfevent_begin(&event, now, step);
 *     tfevent_scalar(&event, "loss", 0.5f);
 *     const uint8_t *record = tfevent_frame(&event, &bytes);
 */
#ifndef PIPETRAIN_TFEVENT_H
#define PIPETRAIN_TFEVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/protobuf.h"

struct tfevent {
    struct proto proto;         /* the record: room for its frame's header, the payload, the footer */
    bool has_summary;           /* a summary is open */
};

void tfevent_init(struct tfevent *event);
void tfevent_release(struct tfevent *event);
/* Room for a record of `bytes`: up to there writing allocates nothing. 0 or -ENOMEM. */
int tfevent_reserve(struct tfevent *event, size_t bytes);

/* Begin a new event with this time, in seconds since 1970, and step; the previous one is discarded. */
void tfevent_begin(struct tfevent *event, double wall_time, uint64_t step);
/* The version, which is the first event of every file, alone in its event. */
void tfevent_version(struct tfevent *event);
/* Alone in its event: a process starts at the event's step, so readers discard all values of this run that earlier
 * files have from that step on. */
void tfevent_start(struct tfevent *event);

/* Values: any number of them in one event. `tag` is UTF-8; TensorBoard displays only [A-Za-z0-9_./-] well. */
void tfevent_scalar(struct tfevent *event, const char *tag, float value);
/* A histogram: bucket i counts the numbers up to limits[i] that are in no earlier bucket. */
struct tfevent_histogram {
    double least, most, count, sum, squares;    /* of the numbers; squares: the sum of their squares */
    const double *limits, *counts;
    size_t buckets;
};
void tfevent_histogram(struct tfevent *event, const char *tag, const struct tfevent_histogram *histogram);
/* Markdown. */
void tfevent_text(struct tfevent *event, const char *tag, const char *text);

/* Hyperparameters, between the open and the close of a session. Readers keep the first session and the first end of
 * a run, so the end is written only when nothing follows. */
void tfevent_open_session(struct tfevent *event);
void tfevent_number(struct tfevent *event, const char *name, double value);
void tfevent_words(struct tfevent *event, const char *name, const char *value);
void tfevent_flag(struct tfevent *event, const char *name, bool value);
/* Sessions of one group are shown as one. */
void tfevent_close_session(struct tfevent *event, const char *group, double time);
/* The run has finished successfully. */
void tfevent_end_session(struct tfevent *event, double time);

/* The whole record with its frame, valid until the next call; NULL when out of memory. */
const uint8_t *tfevent_frame(struct tfevent *event, size_t *bytes_out);

#endif
