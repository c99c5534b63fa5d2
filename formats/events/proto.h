/* Writing protobuf's wire format (formats/wire.h reads it) into a growing buffer: fields in the order they are put,
 * messages in messages. A number is written also where it is 0: callers leave out what is a default. Used by one
 * thread at a time. */
#ifndef PIPETRAIN_PROTO_H
#define PIPETRAIN_PROTO_H

#include <stddef.h>
#include <stdint.h>

#define PROTO_DEPTH_MAX 12u             /* messages in each other */

struct proto {
    uint8_t *bytes;                     /* owned; NULL until something is written */
    size_t count, room;
    size_t opened[PROTO_DEPTH_MAX];     /* where the bodies of the messages that are open begin */
    uint32_t depth;
    int failed;                         /* 0 or -ENOMEM: nothing is written any more, until proto_reset */
};

void proto_init(struct proto *proto);
void proto_release(struct proto *proto);
/* Empty again, memory kept. */
void proto_reset(struct proto *proto);
/* Room for `bytes` in all: up to there writing allocates nothing. 0 or -ENOMEM. */
int proto_reserve(struct proto *proto, size_t bytes);

/* A field that is a message: what is put until its close belongs to it. */
void proto_open_message(struct proto *proto, uint32_t field);
void proto_close_message(struct proto *proto);
void proto_varint(struct proto *proto, uint32_t field, uint64_t value);
void proto_double(struct proto *proto, uint32_t field, double value);
void proto_float(struct proto *proto, uint32_t field, float value);
void proto_bytes(struct proto *proto, uint32_t field, const void *bytes, size_t count);
/* A repeated field of doubles, packed. */
void proto_doubles(struct proto *proto, uint32_t field, const double *values, size_t count);
/* Without its terminator. */
void proto_string(struct proto *proto, uint32_t field, const char *text);
/* Bytes that are no field, as they are. */
void proto_raw(struct proto *proto, const void *bytes, size_t count);

#endif
