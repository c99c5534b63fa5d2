/* Writes a network as an ONNX model. Main thread only. */
#ifndef PIPETRAIN_ONNX_FILE_H
#define PIPETRAIN_ONNX_FILE_H

#include "tools/export/export_subject.h"

export_writer onnx_file_write;

#endif
