/* Images stored as serialized tensors. Called while a data set is opened, and by decoders for every such record. */
#include "loader/images/tensor_image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "formats/tensor_proto.h"

static const struct {
    uint32_t type;
    enum number_kind numbers;
} tensor_numbers[] = {
    { TENSOR_UINT8, NUMBER_BYTES },  { TENSOR_BOOL, NUMBER_BYTES },     { TENSOR_INT16, NUMBER_INT16 },
    { TENSOR_UINT16, NUMBER_UINT16 }, { TENSOR_HALF, NUMBER_FLOAT16 },  { TENSOR_INT32, NUMBER_INT32 },
    { TENSOR_UINT32, NUMBER_INT32 }, { TENSOR_FLOAT, NUMBER_FLOAT32 },  { TENSOR_INT64, NUMBER_INT64 },
    { TENSOR_DOUBLE, NUMBER_FLOAT64 },
};

/* The number kind for a tensor type; NUMBER_KIND_COUNT if pixels cannot have it. */
static enum number_kind find_numbers(uint32_t type)
{
    for (size_t i = 0; i < sizeof(tensor_numbers) / sizeof(*tensor_numbers); i++)
        if (tensor_numbers[i].type == type)
            return tensor_numbers[i].numbers;
    return NUMBER_KIND_COUNT;
}

bool tensor_image_is(const uint8_t *bytes, size_t byte_count)
{
    struct tensor_proto tensor;
    return tensor_proto_read(bytes, byte_count, &tensor);
}

/* The index of the image's first dimension: leading ones before three other dimensions are a batch of one image. */
static uint32_t first_size(const struct tensor_proto *tensor)
{
    uint32_t first = 0;
    while (tensor->rank - first > 3 && tensor->sizes[first] == 1)
        first++;
    return first;
}

static bool is_channels(int64_t size)
{
    return size == 1 || size == 3;
}

/* Has the tensor no height and width, but one row of numbers, or one row for each channel? */
static bool is_flat(const int64_t *sizes, uint32_t rank)
{
    return rank < 2 || (rank == 2 && (sizes[0] == 1 || sizes[1] == 1 || sizes[0] == 3 || sizes[1] == 3)) ||
           (rank == 3 && sizes[0] == 1 && sizes[1] == 1);
}

int tensor_image_find(const struct stored_image *image, enum pixel_layout configured, enum number_kind *numbers_out,
                      enum pixel_layout *layout_out, char *problem_out, size_t problem_size)
{
    struct tensor_proto tensor = { 0 };
    (void)tensor_proto_read(image->bytes, image->byte_count, &tensor);
    *numbers_out = find_numbers(tensor.type);
    if (tensor.type == TENSOR_STRING) {
        snprintf(problem_out, problem_size,
                 "feature '%s' holds a serialized TensorProto of strings: store the image itself, without "
                 "tf.io.serialize_tensor", image->key);
        return -EBADMSG;
    }
    if (*numbers_out == NUMBER_KIND_COUNT) {
        snprintf(problem_out, problem_size,
                 "feature '%s' holds a serialized TensorProto of DataType %" PRIu32 ", which pixels cannot have: cast "
                 "to uint8 before tf.io.serialize_tensor", image->key, tensor.type);
        return -EBADMSG;
    }
    const int64_t *const sizes = tensor.sizes + first_size(&tensor);
    const bool is_three = tensor.rank - first_size(&tensor) == 3;
    const bool is_planar = (is_three && is_channels(sizes[0]) && !is_channels(sizes[2]) && !is_flat(sizes, 3)) ||
                           (tensor.rank - first_size(&tensor) == 2 && sizes[0] == 3);
    *layout_out = configured != PIXEL_LAYOUT_AUTO ? configured : is_planar ? PIXEL_LAYOUT_CHW : PIXEL_LAYOUT_HWC;
    return 0;
}

/* Set the image's sizes. For a flat tensor they stay those of the record. */
static int set_shape(struct stored_image *image, const struct tensor_proto *tensor, enum pixel_layout layout)
{
    const uint32_t first = first_size(tensor), rank = tensor->rank - first;
    const int64_t *const sizes = tensor->sizes + first;
    if (is_flat(sizes, rank))
        return 0;
    if (rank > 3)
        return -EBADMSG;
    const uint32_t height = rank == 3 && layout == PIXEL_LAYOUT_CHW ? 1 : 0;
    image->height = (struct image_size){ "shape", sizes[height] };
    image->width = (struct image_size){ "shape", sizes[height + 1] };
    image->channels = (struct image_size){ "shape", rank == 2 ? 1 : sizes[height == 1 ? 0 : 2] };
    return 0;
}

int tensor_image_read(struct stored_image *image, enum number_kind numbers, enum pixel_layout layout,
                      char *problem_out, size_t problem_size)
{
    struct tensor_proto tensor;
    const char *flaw = NULL;
    if (!tensor_proto_read(image->bytes, image->byte_count, &tensor))
        flaw = "holds no serialized TensorProto, as the first record does";
    else if (find_numbers(tensor.type) != numbers)
        flaw = "holds a TensorProto of another type than the first record's";
    else if (tensor.content_bytes == 0)
        flaw = "holds a TensorProto without tensor_content: write it with tf.io.serialize_tensor";
    else if (set_shape(image, &tensor, layout) < 0)
        flaw = "holds a TensorProto that is not an image of height, width and channels";
    if (flaw != NULL) {
        snprintf(problem_out, problem_size, "feature '%s' %s", image->key, flaw);
        return -EBADMSG;
    }
    image->bytes = tensor.content;
    image->byte_count = tensor.content_bytes;
    return 0;
}
