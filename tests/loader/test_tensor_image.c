/* Images that are serialized tensors: read by their own type and shape, and refused by name where they are none. The
 * messages are written here field by field, as protobuf does it. */
#include <stdio.h>
#include <string.h>

#include "formats/tensor_proto.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define HEIGHT 9u
#define WIDTH 10u
#define CHANNELS 3u
#define PIXELS (HEIGHT * WIDTH * CHANNELS)
#define MESSAGE_MAX 4096u

static const struct image_shape wanted = { HEIGHT, WIDTH, CHANNELS };

static size_t put_varint(uint64_t value, uint8_t *out)
{
    size_t bytes = 0;
    for (; value > 127; value >>= 7)
        out[bytes++] = (uint8_t)(value | 128);
    out[bytes++] = (uint8_t)value;
    return bytes;
}

/* dtype, tensor_shape and, unless there is none, tensor_content. */
static size_t write_tensor(uint32_t type, const uint32_t *sizes, uint32_t rank, const void *content, size_t bytes,
                           uint8_t *out)
{
    uint8_t shape[64];
    size_t shape_bytes = 0, length = 0;
    for (uint32_t i = 0; i < rank; i++) {
        uint8_t size[8];
        const size_t size_bytes = put_varint(sizes[i], size);
        shape[shape_bytes++] = 2 << 3 | 2;
        shape[shape_bytes++] = (uint8_t)(size_bytes + 1);
        shape[shape_bytes++] = 1 << 3;
        memcpy(shape + shape_bytes, size, size_bytes);
        shape_bytes += size_bytes;
    }
    out[length++] = 1 << 3;
    length += put_varint(type, out + length);
    out[length++] = 2 << 3 | 2;
    length += put_varint(shape_bytes, out + length);
    memcpy(out + length, shape, shape_bytes);
    length += shape_bytes;
    if (bytes == 0)
        return length;
    out[length++] = 4 << 3 | 2;
    length += put_varint(bytes, out + length);
    memcpy(out + length, content, bytes);
    return length + bytes;
}

static struct dataset_options write_set(const uint8_t *tensor, size_t bytes)
{
    static char path[512];
    uint8_t frame[MESSAGE_MAX + FIXTURE_FRAME_MAX];
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "tensors.tfrecord"));
    fixture_write(path, frame, fixture_example("image", tensor, bytes, "label", 4, frame));
    struct dataset_options options = fixture_options(path);
    options.shape = wanted;
    return options;
}

static uint8_t pixel_at(uint32_t y, uint32_t x, uint32_t c)
{
    return (uint8_t)(7 * y + 5 * x + 60 * c);
}

/* Number i of the tensor, pixel by pixel or plane by plane. */
static uint8_t number_at(uint32_t i, bool is_planar)
{
    return is_planar ? pixel_at(i / WIDTH % HEIGHT, i % WIDTH, i / (HEIGHT * WIDTH))
                     : pixel_at(i / (WIDTH * CHANNELS), i / CHANNELS % WIDTH, i % CHANNELS);
}

static void assert_set_is_read(const struct dataset_options *options)
{
    uint8_t pixels[PIXELS];
    int32_t label;
    struct dataset *const dataset = fixture_open(options);
    fixture_load(dataset, 0, pixels, &label);
    assert_int_equal(label, 4);
    for (uint32_t i = 0; i < PIXELS; i++)
        assert_int_equal(pixels[i], number_at(i, false));
    dataset_close(dataset);
}

TEST(a_tensor_of_any_type_and_shape_is_read)
{
    static const struct { uint32_t sizes[5], rank; bool is_planar; } shapes[] = {
        { { HEIGHT, WIDTH, CHANNELS }, 3, false },    { { CHANNELS, HEIGHT, WIDTH }, 3, true },
        { { 1, HEIGHT, WIDTH, CHANNELS }, 4, false }, { { 1, 1, CHANNELS, HEIGHT, WIDTH }, 5, true },
        { { PIXELS }, 1, false },                     { { 1, PIXELS }, 2, false }, { { 1, 1, PIXELS }, 3, false },
        { { PIXELS / 3, 3 }, 2, false },              { { 3, PIXELS / 3 }, 2, true },
        { { 1, PIXELS, 1 }, 3, false } };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        uint8_t bytes[PIXELS], message[MESSAGE_MAX];
        uint16_t words[PIXELS];
        int32_t integers[PIXELS];
        float floats[PIXELS];
        for (uint32_t k = 0; k < PIXELS; k++) {
            bytes[k] = number_at(k, shapes[i].is_planar);
            words[k] = bytes[k];
            integers[k] = bytes[k];
            floats[k] = (float)bytes[k] / 255;
        }
        const struct { uint32_t type; const void *content; size_t count; } types[] = {
            { TENSOR_UINT8, bytes, sizeof(bytes) },       { TENSOR_UINT16, words, sizeof(words) },
            { TENSOR_INT16, words, sizeof(words) },       { TENSOR_INT32, integers, sizeof(integers) },
            { TENSOR_UINT32, integers, sizeof(integers) }, { TENSOR_FLOAT, floats, sizeof(floats) } };
        for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
            const size_t length = write_tensor(types[t].type, shapes[i].sizes, shapes[i].rank, types[t].content,
                                               types[t].count, message);
            const struct dataset_options options = write_set(message, length);
            assert_set_is_read(&options);
        }
    }
}

TEST(what_is_no_tensor_of_pixels_is_refused_by_name)
{
    static const uint32_t sizes[] = { HEIGHT, WIDTH, CHANNELS }, other[] = { HEIGHT, WIDTH, CHANNELS + 1 };
    static const uint8_t pixels[PIXELS];
    uint8_t message[MESSAGE_MAX];
    struct dataset_options options = write_set(message, write_tensor(TENSOR_STRING, sizes, 3, pixels, 20, message));
    fixture_assert_refused(&options, "holds a serialized TensorProto of strings", "store the image itself");
    options = write_set(message, write_tensor(14, sizes, 3, pixels, PIXELS, message));
    fixture_assert_refused(&options, "holds a serialized TensorProto of DataType 14", "cast to uint8");
    options = write_set(message, write_tensor(TENSOR_UINT8, sizes, 3, NULL, 0, message));
    fixture_assert_refused(&options, "without tensor_content", "record 0");
    options = write_set(message, write_tensor(TENSOR_UINT8, other, 3, pixels, PIXELS, message));
    fixture_assert_refused(&options, "says its shape is 4, the network wants 3", "record 0");
    options = write_set(message, write_tensor(TENSOR_UINT8, sizes, 3, pixels, PIXELS - 1, message));
    fixture_assert_refused(&options, "has 269 bytes of pixels", "its sizes are 9x10x3");
}

/* Fields 5 to 17 of TensorProto are lists of values of other types, and 18 the last one of TensorFlow 2. */
TEST(a_tensor_may_have_the_fields_of_other_types_and_no_others)
{
    static const uint32_t sizes[] = { 2, 3, 1 };
    for (uint32_t number = 5; number < 31; number++) {
        uint8_t message[64];
        struct tensor_proto tensor;
        size_t length = write_tensor(TENSOR_UINT8, sizes, 3, "pixels", 6, message);
        length += put_varint(number << 3 | 2, message + length);
        message[length++] = 0;
        assert_int_equal(tensor_proto_read(message, length, &tensor), number <= 18);
    }
}

/* Cut anywhere, and with any byte changed: read or not, and nothing is read that is not in it. */
TEST(a_damaged_tensor_stays_inside_its_bytes)
{
    static const uint32_t sizes[] = { 2, 3, 1 };
    static const uint8_t pixels[6] = { 1, 2, 3, 4, 5, 6 };
    uint8_t message[64];
    const size_t length = write_tensor(TENSOR_UINT8, sizes, 3, pixels, sizeof(pixels), message);
    struct tensor_proto tensor;
    assert_true(tensor_proto_read(message, length, &tensor));
    for (size_t at = 0; at < length; at++)
        for (uint32_t value = 0; value < 256; value++) {
            uint8_t changed[64];
            memcpy(changed, message, length);
            changed[at] = (uint8_t)value;
            if (tensor_proto_read(changed, length, &tensor) && tensor.content_bytes > 0)
                assert_true(tensor.content >= changed && tensor.content + tensor.content_bytes <= changed + length);
            if (tensor_proto_read(message, at, &tensor))
                assert_true(tensor.content_bytes == 0 || tensor.content + tensor.content_bytes <= message + at);
        }
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
