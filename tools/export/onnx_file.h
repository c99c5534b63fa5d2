/* Writes a network as an ONNX model: one file, in which the constants are streamed from the weights, so that memory is
 * needed for the largest parameter only. Main thread only. */
#ifndef PIPETRAIN_ONNX_FILE_H
#define PIPETRAIN_ONNX_FILE_H

#include <stdint.h>

#include "tools/export/export_subject.h"

/* Parsers of protobuf accept no larger messages. */
#define ONNX_FILE_BYTES_MAX INT32_MAX

export_writer onnx_file_write;

#endif
