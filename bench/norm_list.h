/* oneDNN's primitives for batch normalisation. The backend normalises by loops of its own, so that they are a
 * yardstick only. */
#ifndef PIPETRAIN_NORM_LIST_H
#define PIPETRAIN_NORM_LIST_H

#include "compute/onednn/onednn_api.h"

/* All implementations of a training step's forward pass, or of backward (with the gradients of scale and shift), for
 * values of one layout, in oneDNN's order, at most NN_IMPLEMENTATIONS_MAX; the caller destroys them. `relu`: with the
 * ReLU behind it. `forward`: a forward one, for backward; else NULL. Returns their number. */
int norm_list(dnnl_engine_t engine, nn_md values, bool relu, const_dnnl_primitive_desc_t forward,
              dnnl_primitive_desc_t *pds_out);

#endif
