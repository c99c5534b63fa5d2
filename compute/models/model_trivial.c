/* The network of tf_cnn_benchmarks that computes next to nothing, to measure the input alone (doc/models.md): the
 * image's size is its row's. */
#include "compute/models/models.h"
#include "compute/models/parts.h"

void model_build_trivial(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct draft draft = draft_of(net, options, &style_benchmarks);
    uint32_t at = part_dense_relu(&draft, "1", NET_INPUT, 1);
    at = part_dense_relu(&draft, "2", at, 4096);
    part_classes(&draft, "fc3", at);
}
