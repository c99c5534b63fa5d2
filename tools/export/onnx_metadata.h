/* The metadata of an ONNX model: what another program needs to use it, as pairs of texts (doc/export.md). */
#ifndef PIPETRAIN_ONNX_METADATA_H
#define PIPETRAIN_ONNX_METADATA_H

#include "formats/protobuf.h"
#include "tools/export/export_subject.h"

/* Add the pairs as fields `field` of the message. 0 or -ENOMEM. */
int onnx_metadata_add(struct proto *proto, uint32_t field, const struct export_subject *subject);

#endif
