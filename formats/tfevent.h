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

/* A new event of this time, in seconds since 1970, and step; what was in the struct goes. */
void tfevent_begin(struct tfevent *event, double wall_time, uint64_t step);
/* What the first event of every file is, and nothing else. */
void tfevent_version(struct tfevent *event);
/* Alone in its event: a process begins with the event's step, so readers drop all values of this run that earlier
 * files have from there on. */
void tfevent_start(struct tfevent *event);

/* Values: any number of them in one event. `tag` is UTF-8; of [A-Za-z0-9_./-] it is shown well. */
void tfevent_scalar(struct tfevent *event, const char *tag, float value);
/* Of numbers that were counted: bucket i are those up to limits[i] that are in no bucket before. */
struct tfevent_histogram {
    double least, most, count, sum, squares;    /* of the numbers; squares: the sum of theirs */
    const double *limits, *counts;
    size_t buckets;
};
void tfevent_histogram(struct tfevent *event, const char *tag, const struct tfevent_histogram *histogram);
/* Markdown. */
void tfevent_text(struct tfevent *event, const char *tag, const char *text);

/* Hyperparameters, between the open and the close of a session. Of a run readers keep the first session and the first
 * end that they find: there is an end only where nothing comes behind it. */
void tfevent_open_session(struct tfevent *event);
void tfevent_number(struct tfevent *event, const char *name, double value);
void tfevent_words(struct tfevent *event, const char *name, const char *value);
void tfevent_flag(struct tfevent *event, const char *name, bool value);
/* Sessions of one group are shown as one. */
void tfevent_close_session(struct tfevent *event, const char *group, double time);
/* It came to its end, as it should. */
void tfevent_end_session(struct tfevent *event, double time);

/* The whole record with its frame, valid until the next call; NULL: there was no memory for it. */
const uint8_t *tfevent_frame(struct tfevent *event, size_t *bytes_out);

#endif
