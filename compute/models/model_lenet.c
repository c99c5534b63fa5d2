/* The network in the manner of LeNet-5 that tf_cnn_benchmarks has for small colour images (doc/models.md). */
#include "compute/models/models.h"
#include "compute/models/parts.h"

void model_build_lenet(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct draft draft = draft_of(net, options, &style_benchmarks);
    uint32_t at = part_conv_relu(&draft, "1", NET_INPUT, 32, window_same(5, 1));
    at = part_max_pool(&draft, "pool1", at, window_valid(2, 2));
    at = part_conv_relu(&draft, "2", at, 64, window_same(5, 1));
    at = part_max_pool(&draft, "pool2", at, window_valid(2, 2));
    part_classes(&draft, "fc2", part_dense_relu(&draft, "1", at, 512));
}
