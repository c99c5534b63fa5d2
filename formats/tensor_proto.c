/* Reading a TensorProto. Called by decoders for every record of a data set whose images are TensorProtos; pure
 * functions. */
#include "formats/tensor_proto.h"

#include "formats/protobuf.h"

#define TYPE_MAX 64u            /* above TensorFlow's highest DataType that is not a reference */

enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_VERSION = 3, TENSOR_CONTENT = 4, TENSOR_FIELD_MAX = 18 };
enum { SHAPE_DIM = 2, SHAPE_UNKNOWN_RANK = 3 };
enum { DIM_SIZE = 1, DIM_NAME = 2 };

static bool read_dim(struct range body, int64_t *size_out)
{
    *size_out = 0;
    while (body.at < body.end) {
        struct field field = { 0 };
        if (!take_field(&body, &field) || field.number > DIM_NAME)
            return false;
        if (field.number == DIM_SIZE && field.type == WIRE_VARINT)
            *size_out = (int64_t)field.varint;
    }
    return *size_out >= 0;
}

static bool read_shape(struct range body, struct tensor_proto *tensor)
{
    while (body.at < body.end) {
        struct field field = { 0 };
        if (!take_field(&body, &field) || field.number < SHAPE_DIM || field.number > SHAPE_UNKNOWN_RANK)
            return false;
        if (field.number != SHAPE_DIM)
            continue;
        if (field.type != WIRE_BYTES || tensor->rank == TENSOR_RANK_MAX ||
            !read_dim(field.body, &tensor->sizes[tensor->rank++]))
            return false;
    }
    return true;
}

static bool read_field(const struct field *field, struct tensor_proto *tensor, bool *has_shape)
{
    switch (field->number) {
    case TENSOR_DTYPE:
        tensor->type = field->type == WIRE_VARINT && field->varint <= TYPE_MAX ? (uint32_t)field->varint : 0;
        return tensor->type != 0;
    case TENSOR_SHAPE:
        *has_shape = true;
        return field->type == WIRE_BYTES && read_shape(field->body, tensor);
    case TENSOR_VERSION:
        return field->type == WIRE_VARINT;
    case TENSOR_CONTENT:
        tensor->content = field->body.at;
        tensor->content_bytes = range_bytes(&field->body);
        return field->type == WIRE_BYTES;
    }
    return field->number <= TENSOR_FIELD_MAX;
}

bool tensor_proto_read(const uint8_t *bytes, size_t byte_count, struct tensor_proto *tensor_out)
{
    struct range message = { bytes, bytes + byte_count };
    struct tensor_proto tensor = { 0 };
    bool has_shape = false;
    while (message.at < message.end) {
        struct field field = { 0 };
        if (!take_field(&message, &field) || !read_field(&field, &tensor, &has_shape))
            return false;
    }
    if (tensor.type == 0 || !has_shape)
        return false;
    *tensor_out = tensor;
    return true;
}
