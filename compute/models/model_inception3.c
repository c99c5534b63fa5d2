/* Inception v3 (Szegedy et al. 2015) as tf_cnn_benchmarks has it (doc/models.md): every convolution has no bias, but a
 * batch normalisation without gamma and a ReLU. Names are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

/* The output of a unit is read only by other units, or is concatenated to the output of the module. */
enum place { INSIDE, OUT };

enum { POOL = 0, GIVEN = UINT16_MAX };      /* values of unit.filters: the unit is a pool; the number is that of the
                                             * module's row */

/* A convolution of a module, or its pool. Stride 1 keeps the size of the image (SAME), stride 2 halves it (VALID). */
struct unit {
    const char *name;
    uint32_t reads;             /* 0: the module's input; k: the output of the unit k rows above */
    uint32_t kernel[2];         /* height, width */
    uint32_t stride, filters;
    enum place place;
};

static const struct unit module_a[] = {
    { "branch1x1", 0, { 1, 1 }, 1, 64, OUT },
    { "branch5x5_1", 0, { 1, 1 }, 1, 48, INSIDE },
    { "branch5x5_2", 1, { 5, 5 }, 1, 64, OUT },
    { "branch3x3dbl_1", 0, { 1, 1 }, 1, 64, INSIDE },
    { "branch3x3dbl_2", 1, { 3, 3 }, 1, 96, INSIDE },
    { "branch3x3dbl_3", 1, { 3, 3 }, 1, 96, OUT },
    { "pool", 0, { 3, 3 }, 1, POOL, INSIDE },
    { "branch_pool", 1, { 1, 1 }, 1, GIVEN, OUT },
    { .name = NULL },
};

static const struct unit module_b[] = {
    { "branch3x3", 0, { 3, 3 }, 2, 384, OUT },
    { "branch3x3dbl_1", 0, { 1, 1 }, 1, 64, INSIDE },
    { "branch3x3dbl_2", 1, { 3, 3 }, 1, 96, INSIDE },
    { "branch3x3dbl_3", 1, { 3, 3 }, 2, 96, OUT },
    { "pool", 0, { 3, 3 }, 2, POOL, OUT },
    { .name = NULL },
};

static const struct unit module_c[] = {
    { "branch1x1", 0, { 1, 1 }, 1, 192, OUT },
    { "branch7x7_1", 0, { 1, 1 }, 1, GIVEN, INSIDE },
    { "branch7x7_2", 1, { 1, 7 }, 1, GIVEN, INSIDE },
    { "branch7x7_3", 1, { 7, 1 }, 1, 192, OUT },
    { "branch7x7dbl_1", 0, { 1, 1 }, 1, GIVEN, INSIDE },
    { "branch7x7dbl_2", 1, { 7, 1 }, 1, GIVEN, INSIDE },
    { "branch7x7dbl_3", 1, { 1, 7 }, 1, GIVEN, INSIDE },
    { "branch7x7dbl_4", 1, { 7, 1 }, 1, GIVEN, INSIDE },
    { "branch7x7dbl_5", 1, { 1, 7 }, 1, 192, OUT },
    { "pool", 0, { 3, 3 }, 1, POOL, INSIDE },
    { "branch_pool", 1, { 1, 1 }, 1, 192, OUT },
    { .name = NULL },
};

static const struct unit module_d[] = {
    { "branch3x3_1", 0, { 1, 1 }, 1, 192, INSIDE },
    { "branch3x3_2", 1, { 3, 3 }, 2, 320, OUT },
    { "branch7x7x3_1", 0, { 1, 1 }, 1, 192, INSIDE },
    { "branch7x7x3_2", 1, { 1, 7 }, 1, 192, INSIDE },
    { "branch7x7x3_3", 1, { 7, 1 }, 1, 192, INSIDE },
    { "branch7x7x3_4", 1, { 3, 3 }, 2, 192, OUT },
    { "pool", 0, { 3, 3 }, 2, POOL, OUT },
    { .name = NULL },
};

static const struct unit module_e[] = {
    { "branch1x1", 0, { 1, 1 }, 1, 320, OUT },
    { "branch3x3_1", 0, { 1, 1 }, 1, 384, INSIDE },
    { "branch3x3_2a", 1, { 1, 3 }, 1, 384, OUT },
    { "branch3x3_2b", 2, { 3, 1 }, 1, 384, OUT },
    { "branch3x3dbl_1", 0, { 1, 1 }, 1, 448, INSIDE },
    { "branch3x3dbl_2", 1, { 3, 3 }, 1, 384, INSIDE },
    { "branch3x3dbl_3a", 1, { 1, 3 }, 1, 384, OUT },
    { "branch3x3dbl_3b", 2, { 3, 1 }, 1, 384, OUT },
    { "pool", 0, { 3, 3 }, 1, POOL, INSIDE },
    { "branch_pool", 1, { 1, 1 }, 1, 192, OUT },
    { .name = NULL },
};

enum { UNITS_MAX = 16 };

static const struct module {
    const char *name;
    const struct unit *units;
    uint32_t (*pool)(struct builder *builder, const char *name, uint32_t from, struct window window);
    uint32_t given;             /* filters of units whose number is GIVEN */
    bool has_head;              /* the auxiliary head reads the module's output */
} modules[] = {
    { "Mixed_5b", module_a, build_average_pool, 32, false },
    { "Mixed_5c", module_a, build_average_pool, 64, false },
    { "Mixed_5d", module_a, build_average_pool, 64, false },
    { "Mixed_6a", module_b, build_max_pool, 0, false },
    { "Mixed_6b", module_c, build_average_pool, 128, false },
    { "Mixed_6c", module_c, build_average_pool, 160, false },
    { "Mixed_6d", module_c, build_average_pool, 160, false },
    { "Mixed_6e", module_c, build_average_pool, 192, true },
    { "Mixed_7a", module_d, build_max_pool, 0, false },
    { "Mixed_7b", module_e, build_average_pool, 0, false },
    { "Mixed_7c", module_e, build_max_pool, 0, false },
};

/* Appends the layers <name>.conv, <name>.bn and <name>.relu. */
static uint32_t conv(const struct builder *builder, const char *name, uint32_t from, uint32_t filters,
                     struct window window)
{
    struct builder inside = builder_within(builder, "%s.", name);
    const uint32_t at = build_conv(&inside, "conv", from, filters, window);
    return build_relu(&inside, "relu", build_norm(&inside, "bn", at));
}

static uint32_t append_unit(struct builder *builder, const struct module *module, const struct unit *unit,
                            uint32_t from)
{
    const struct window window = {
        .kernel_h = unit->kernel[0], .kernel_w = unit->kernel[1], .stride_h = unit->stride, .stride_w = unit->stride,
        .padding = unit->stride == 1 ? PADDING_SAME : PADDING_VALID };
    if (unit->filters == POOL)
        return module->pool(builder, unit->name, from, window);
    return conv(builder, unit->name, from, unit->filters == GIVEN ? module->given : unit->filters, window);
}

static uint32_t append_module(struct builder *builder, const struct module *module, uint32_t from)
{
    uint32_t made[UNITS_MAX], outs[LAYER_INPUTS_MAX], out_count = 0;
    for (uint32_t i = 0; module->units[i].name != NULL; i++) {
        const struct unit *const unit = &module->units[i];
        made[i] = append_unit(builder, module, unit, unit->reads == 0 ? from : made[i - unit->reads]);
        if (unit->place == OUT)
            outs[out_count++] = made[i];
    }
    return build_concat(builder, "concat", outs, out_count);
}

static void initialize_truncated(struct builder *builder, uint32_t layer, float std)
{
    const struct initializer how = { INITIALIZER_TRUNCATED_NORMAL, std };
    net_initialize(builder->net, layer, PARAMETER_WEIGHT, how);
}

/* Appends the auxiliary head, whose conv1 is initialised with a smaller std than all other convolutions. */
static void append_head(struct builder *builder, uint32_t from)
{
    uint32_t at = build_average_pool(builder, "pool", from, window_valid(5, 3));
    at = conv(builder, "conv0", at, 128, window_valid(1, 1));
    struct builder conv1 = builder_within(builder, "conv1.");
    at = build_conv(&conv1, "conv", at, 768, window_valid(5, 1));
    initialize_truncated(&conv1, at, 0.01f);
    at = build_relu(&conv1, "relu", build_norm(&conv1, "bn", at));
    at = build_dense(builder, "fc", at, builder->net->classes);
    initialize_truncated(builder, at, 0.001f);
    build_auxiliary_loss(builder, "loss", at, 0.4f);
}

static uint32_t append_stem(struct builder *builder)
{
    uint32_t at = conv(builder, "Conv2d_1a_3x3", NET_INPUT, 32, window_valid(3, 2));
    at = conv(builder, "Conv2d_2a_3x3", at, 32, window_valid(3, 1));
    at = conv(builder, "Conv2d_2b_3x3", at, 64, window_same(3, 1));
    at = build_max_pool(builder, "maxpool1", at, window_valid(3, 2));
    at = conv(builder, "Conv2d_3b_1x1", at, 80, window_valid(1, 1));
    at = conv(builder, "Conv2d_4a_3x3", at, 192, window_valid(3, 1));
    return build_max_pool(builder, "maxpool2", at, window_valid(3, 2));
}

void model_build_inception3(struct net *net, const struct model_options *options, uint32_t variant)
{
    struct style style = style_benchmarks;
    style.norm = norm_without_gamma;
    (void)variant;
    struct builder builder = builder_of(net, options, &style), head = builder_within(&builder, "AuxLogits.");
    uint32_t at = append_stem(&builder);
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
        struct builder inside = builder_within(&builder, "%s.", modules[i].name);
        at = append_module(&inside, &modules[i], at);
        if (modules[i].has_head && options->auxiliary)
            append_head(&head, at);
    }
    build_classifier(&builder, "fc", build_global_average(&builder, "avgpool", at));
}
