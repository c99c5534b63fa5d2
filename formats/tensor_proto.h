/* tensorflow.TensorProto as tf.io.serialize_tensor writes it: type, shape and values of one tensor (doc/formats.md).
 * Pure functions. */
#ifndef PIPETRAIN_TENSOR_PROTO_H
#define PIPETRAIN_TENSOR_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values of tensorflow.DataType that are used for images. */
enum tensor_type {
    TENSOR_FLOAT = 1, TENSOR_DOUBLE = 2, TENSOR_INT32 = 3, TENSOR_UINT8 = 4, TENSOR_INT16 = 5, TENSOR_STRING = 7,
    TENSOR_INT64 = 9, TENSOR_BOOL = 10, TENSOR_UINT16 = 17, TENSOR_HALF = 19, TENSOR_UINT32 = 22
};

#define TENSOR_RANK_MAX 8u

struct tensor_proto {
    uint32_t type;                      /* enum tensor_type, or another value of tensorflow.DataType */
    uint32_t rank;
    int64_t sizes[TENSOR_RANK_MAX];
    const uint8_t *content;             /* the values, little-endian, row-major; points into the message */
    size_t content_bytes;               /* 0 if the tensor is empty or its values are in another field */
};

/* Parse a TensorProto. False unless all bytes are one message with a type and a shape and without unknown fields. */
bool tensor_proto_read(const uint8_t *bytes, size_t byte_count, struct tensor_proto *tensor_out);

#endif
