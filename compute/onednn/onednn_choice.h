/* The layouts around one layer with weights, judged by the class of the implementations that
 * oneDNN has for them, not by time. Private to onednn_layout.c and onednn_choice.c. */
#ifndef PIPETRAIN_ONEDNN_CHOICE_H
#define PIPETRAIN_ONEDNN_CHOICE_H

#include "compute/onednn/onednn_plan.h"

/* What is being decided about one layer with weights. */
struct choice {
    struct backend *backend;
    const struct layer *layer;
    struct tensor_layout in, out;
    bool has_data;              /* backward goes on below it */
    bool with_relu;             /* is asked for; which class an implementation is of may depend on it */
};

/* The descriptor of a layer's bias in any layout, NULL when it has none; and whether that is the reason. */
nn_md bias_any(const struct layer *layer);
bool bias_is_made(const struct layer *layer, nn_md bias);
/* A score is so many times the worst class of the three directions, and the sum of their classes. */
#define CHOICE_CLASS 100u
/* How bad these layouts are with the weights `weights`, or with weights in any layout (NULL);
 * UINT32_MAX when there is no implementation. */
uint32_t choice_score(const struct choice *choice, nn_md weights);
/* The blocks oneDNN itself would take for a convolution's source and result, 0 when they are none of ours; the
 * class of the implementation. */
enum pd_class conv_wish(const struct backend *backend, const struct layer *layer, bool with_relu, uint32_t *src_out,
                        uint32_t *dst_out);
/* How the weights are stored, for the caller to release. 0 or a negative errno. */
int weights_choose(const struct choice *choice, nn_md *stored_out);

#endif
