/* Writes an ONNX model: ModelProto in protobuf's wire format, which has the length of a message before it. All lengths
 * are known before the first byte is written. */
#include "tools/export/onnx_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/protobuf.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/export/onnx_graph.h"
#include "tools/export/onnx_metadata.h"
#include "tools/lib/text/number.h"
#include "tools/lib/version.h"

#define IR_VERSION 8u

/* Fields of the messages in onnx.proto. */
enum { MODEL_IR_VERSION = 1, MODEL_PRODUCER = 2, MODEL_PRODUCER_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8,
       MODEL_METADATA = 14 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_BYTES = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2 };
enum { TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2, SHAPE_DIMENSION = 1, DIMENSION_VALUE = 1,
       DIMENSION_NAME = 2 };

struct onnx_file {
    const struct export_subject *subject;
    struct onnx_graph graph;
    struct proto values;        /* GraphProto: name, inputs and outputs */
    struct proto model;         /* ModelProto: all fields except the graph */
    struct proto tensor, front; /* the bytes before those of a constant: in its message, and all */
    uint64_t graph_bytes;
};

static int fail_without_memory(void)
{
    log_message(LOG_ERROR, "the ONNX model: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

/* ---- what is small ---- */

static void add_dimension(struct proto *proto, uint32_t value)
{
    proto_open_message(proto, SHAPE_DIMENSION);
    proto_varint(proto, DIMENSION_VALUE, value);
    proto_close_message(proto);
}

/* Add an input or output of the graph; its first dimension is the batch, of any size. */
static void add_value(struct proto *proto, uint32_t field, const char *name, enum onnx_type type,
                      const uint32_t *dims, uint32_t count)
{
    proto_open_message(proto, field);
    proto_string(proto, VALUE_NAME, name);
    proto_open_message(proto, VALUE_TYPE);
    proto_open_message(proto, TYPE_TENSOR);
    proto_varint(proto, TENSOR_ELEMENT, type);
    proto_open_message(proto, TENSOR_SHAPE);
    proto_open_message(proto, SHAPE_DIMENSION);
    proto_string(proto, DIMENSION_NAME, "N");
    proto_close_message(proto);
    for (uint32_t i = 0; i < count; i++)
        add_dimension(proto, dims[i]);
    for (uint32_t i = 0; i < 4; i++)
        proto_close_message(proto);
}

static void add_values(struct onnx_file *file)
{
    const struct net *const net = file->subject->net;
    const struct export_options *const options = &file->subject->options;
    const struct shape shape = net->input;
    const uint32_t nchw[] = { shape.channels, shape.height, shape.width };
    const uint32_t nhwc[] = { shape.height, shape.width, shape.channels };
    proto_string(&file->values, GRAPH_NAME, net->model);
    add_value(&file->values, GRAPH_INPUT, ONNX_INPUT, options->input == EXPORT_FLOAT ? ONNX_FLOAT : ONNX_UINT8,
              options->layout == EXPORT_NHWC ? nhwc : nchw, 3);
    add_value(&file->values, GRAPH_OUTPUT, ONNX_LOGITS, ONNX_FLOAT, &net->classes, 1);
    add_value(&file->values, GRAPH_OUTPUT, ONNX_PROBABILITIES, ONNX_FLOAT, &net->classes, 1);
}

static int add_model(struct onnx_file *file)
{
    struct proto *const model = &file->model;
    proto_varint(model, MODEL_IR_VERSION, IR_VERSION);
    proto_string(model, MODEL_PRODUCER, "pipetrain");
    proto_string(model, MODEL_PRODUCER_VERSION, PIPETRAIN_VERSION);
    proto_open_message(model, MODEL_OPSET);
    proto_string(model, OPSET_DOMAIN, "");
    proto_varint(model, OPSET_VERSION, file->graph.opset);
    proto_close_message(model);
    return onnx_metadata_add(model, MODEL_METADATA, file->subject);
}

/* ---- lengths ---- */

/* Write the tag and the length of a field whose `bytes` bytes follow. */
static void put_front(struct proto *proto, uint32_t field, uint64_t bytes)
{
    uint8_t front[2 * VARINT_BYTES_MAX];
    const uint8_t *const end = varint_write(varint_write(front, (uint64_t)field << 3 | WIRE_BYTES), bytes);
    proto_raw(proto, front, (size_t)(end - front));
}

/* Make the bytes that precede the numbers of a constant, in file->front. */
static void make_front(struct onnx_file *file, const struct onnx_constant *constant)
{
    struct proto *const tensor = &file->tensor;
    proto_reset(tensor);
    for (uint32_t i = 0; i < constant->rank; i++)
        proto_varint(tensor, TENSOR_DIMS, constant->dims[i]);
    proto_varint(tensor, TENSOR_TYPE, constant->type);
    proto_string(tensor, TENSOR_NAME, constant->name);
    put_front(tensor, TENSOR_BYTES, constant->bytes);
    proto_reset(&file->front);
    put_front(&file->front, GRAPH_CONSTANT, tensor->count + constant->bytes);
    proto_raw(&file->front, tensor->bytes, tensor->count);
}

static bool lacks_memory(const struct onnx_file *file)
{
    return file->values.failed != 0 || file->model.failed != 0 || file->tensor.failed != 0 ||
           file->front.failed != 0;
}

/* Compute the length of the graph, and append its tag and length to the fields of the model. */
static void measure(struct onnx_file *file)
{
    file->graph_bytes = file->graph.nodes.count + file->values.count;
    for (size_t i = 0; i < file->graph.constant_count; i++) {
        make_front(file, &file->graph.constants[i]);
        file->graph_bytes += file->front.count + file->graph.constants[i].bytes;
    }
    put_front(&file->model, MODEL_GRAPH, file->graph_bytes);
}

static int prepare(struct onnx_file *file, const struct export_output *output)
{
    const int code = onnx_graph_init(&file->graph, file->subject);
    if (code != EXIT_CODE_OK)
        return code;
    add_values(file);
    const int rc = add_model(file);
    measure(file);
    if (rc != 0 || lacks_memory(file))
        return fail_without_memory();
    const uint64_t bytes = file->model.count + file->graph_bytes;
    if (bytes <= ONNX_FILE_BYTES_MAX)
        return EXIT_CODE_OK;
    log_message(LOG_ERROR, "%s: would have %s bytes, and an ONNX file holds at most %s: write a module for PyTorch "
                "instead (--torch)", output->path, number_grouped(bytes).text, number_grouped(ONNX_FILE_BYTES_MAX).text);
    return EXIT_CODE_USAGE;
}

/* ---- writing ---- */

static int write_constant(struct onnx_file *file, const struct onnx_constant *constant, float *room,
                          struct export_output *output)
{
    int code = EXIT_CODE_OK;
    const void *const numbers = onnx_constant_numbers(constant, file->subject, room, &code);
    make_front(file, constant);
    if (numbers != NULL)
        code = export_output_write(output, file->front.bytes, file->front.count);
    return code == EXIT_CODE_OK ? export_output_write(output, numbers, constant->bytes) : code;
}

static int write_parts(struct onnx_file *file, struct export_output *output)
{
    float *const room = malloc((net_most_numbers(file->subject->net) + 1) * sizeof(*room));
    if (room == NULL)
        return fail_without_memory();
    int code = export_output_write(output, file->model.bytes, file->model.count);
    if (code == EXIT_CODE_OK)
        code = export_output_write(output, file->graph.nodes.bytes, file->graph.nodes.count);
    for (size_t i = 0; i < file->graph.constant_count && code == EXIT_CODE_OK; i++)
        code = write_constant(file, &file->graph.constants[i], room, output);
    if (code == EXIT_CODE_OK)
        code = export_output_write(output, file->values.bytes, file->values.count);
    free(room);
    return code;
}

static void note(const struct onnx_graph *graph, struct export_output *output)
{
    const int length = snprintf(output->note, sizeof(output->note), "ONNX opset %u", graph->opset);
    if (graph->norms > 0)
        snprintf(output->note + length, sizeof(output->note) - (size_t)length,
                 ", %u of %u batch normalisations folded", graph->folded, graph->norms);
}

int onnx_file_write(const struct export_subject *subject, struct export_output *output)
{
    struct onnx_file file = { .subject = subject };
    int code = prepare(&file, output);
    if (code == EXIT_CODE_OK)
        code = write_parts(&file, output);
    if (code == EXIT_CODE_OK)
        note(&file.graph, output);
    onnx_graph_release(&file.graph);
    proto_release(&file.values);
    proto_release(&file.model);
    proto_release(&file.tensor);
    proto_release(&file.front);
    return code;
}
