/* The graph of an ONNX model: a network in evaluation as nodes and constants. Layers that only training uses, and those
 * that only they read, are left out; pixels from 0 to 255 are transformed inside. Main thread only. */
#ifndef PIPETRAIN_ONNX_GRAPH_H
#define PIPETRAIN_ONNX_GRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "formats/protobuf.h"
#include "tools/export/export_subject.h"

enum onnx_type { ONNX_FLOAT = 1, ONNX_UINT8 = 2, ONNX_INT64 = 7 };      /* TensorProto.DataType */

#define ONNX_INPUT "image"
#define ONNX_LOGITS "logits"
#define ONNX_PROBABILITIES "probabilities"

#define ONNX_NAME_BYTES 96u
#define ONNX_RANK_MAX 4u

struct onnx_constant {
    char name[ONNX_NAME_BYTES]; /* of a parameter: its name in the weights */
    enum onnx_type type;
    uint32_t rank, dims[ONNX_RANK_MAX];
    size_t bytes;
    /* The numbers: those of a parameter of the net, each output's multiplied by factors[output] unless that is NULL;
     * or, for NET_NO_PARAMETER, `data`. The graph owns both arrays. */
    uint32_t parameter;
    double *factors;
    void *data;
    const char *norm;           /* with factors: name of the folded layer */
};

struct onnx_graph {
    struct proto nodes;         /* GraphProto.node of every node */
    struct onnx_constant *constants;
    size_t constant_count, constant_room;
    uint32_t opset;             /* the smallest that has all operators: 13, with layer normalisation 17 */
    uint32_t norms, folded;     /* batch normalisations in the network, and how many of them were folded */
};

/* Make the graph. It reads the statistics of batch normalisation; weights stay in their file. Returns an exit code,
 * after a message unless it is EXIT_CODE_OK; call onnx_graph_release in both cases. */
int onnx_graph_init(struct onnx_graph *graph, const struct export_subject *subject);
/* Accepts a struct of zeros. */
void onnx_graph_release(struct onnx_graph *graph);

/* Read the numbers of a constant: a pointer to them, in `room` (for as many floats as the largest parameter has) or in
 * the graph; NULL after a message, with the exit code in *code_out. */
const void *onnx_constant_numbers(const struct onnx_constant *constant, const struct export_subject *subject,
                                  float *room, int *code_out);

#endif
