/* Compare nets field by field, because the padding between fields is undefined. */
#include "tests/helpers/network/net_compare.h"

#include <string.h>

struct field { const char *name; size_t offset, bytes; };

#define FIELD(type, member) { #member, offsetof(type, member), sizeof(((type *)0)->member) }
#define COUNT(table) (sizeof(table) / sizeof(*(table)))

static const struct field net_fields[] = {
    FIELD(struct net, input), FIELD(struct net, transform.divisor), FIELD(struct net, transform.is_plain),
    FIELD(struct net, transform.mean), FIELD(struct net, transform.std), FIELD(struct net, classes),
    FIELD(struct net, layer_count), FIELD(struct net, parameter_count), FIELD(struct net, trainable_count),
    FIELD(struct net, statistic_count), FIELD(struct net, macs),
};

static const struct field layer_fields[] = {
    FIELD(struct layer, kind), FIELD(struct layer, name), FIELD(struct layer, input_count),
    FIELD(struct layer, inputs), FIELD(struct layer, in), FIELD(struct layer, out), FIELD(struct layer, kernel_h),
    FIELD(struct layer, kernel_w), FIELD(struct layer, stride_h), FIELD(struct layer, stride_w),
    FIELD(struct layer, pad_top), FIELD(struct layer, pad_bottom), FIELD(struct layer, pad_left),
    FIELD(struct layer, pad_right), FIELD(struct layer, groups), FIELD(struct layer, channels_before),
    FIELD(struct layer, response), FIELD(struct layer, activation), FIELD(struct layer, limit),
    FIELD(struct layer, loss_weight), FIELD(struct layer, rate), FIELD(struct layer, epsilon),
    FIELD(struct layer, decay), FIELD(struct layer, parameters), FIELD(struct layer, macs),
};

static const struct field parameter_fields[] = {
    FIELD(struct parameter, name), FIELD(struct parameter, kind), FIELD(struct parameter, layer),
    FIELD(struct parameter, rank), FIELD(struct parameter, dims), FIELD(struct parameter, count),
    FIELD(struct parameter, is_trained), FIELD(struct parameter, decays), FIELD(struct parameter, initializer),
    FIELD(struct parameter, fan_in), FIELD(struct parameter, fan_out),
};

static const char *difference(const void *a, const void *b, const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp((const char *)a + fields[i].offset, (const char *)b + fields[i].offset, fields[i].bytes) != 0)
            return fields[i].name;
    return NULL;
}

const char *net_difference(const struct net *a, const struct net *b)
{
    const char *name = strcmp(a->model, b->model) != 0 ? "model" : difference(a, b, net_fields, COUNT(net_fields));
    for (uint32_t i = 0; name == NULL && i < a->layer_count; i++)
        name = difference(&a->layers[i], &b->layers[i], layer_fields, COUNT(layer_fields));
    for (uint32_t i = 0; name == NULL && i < a->parameter_count; i++)
        name = difference(&a->parameters[i], &b->parameters[i], parameter_fields, COUNT(parameter_fields));
    return name;
}
