/* The two C APIs of oneDNN behind one, but for memory descriptors (onednn_md.c). Called when plans
 * are made, from the tower's thread; nothing here runs in a step. */
#include "compute/onednn/onednn_api.h"

#include <errno.h>
#include <string.h>

#include "compute/onednn/onednn_room.h"
#include "stage/log.h"

int nn_check(dnnl_status_t status, const char *call)
{
    if (status == dnnl_success)
        return 0;
    if (status == dnnl_out_of_memory) {
        nn_room_short();
        return -ENOMEM;
    }
    log_message(LOG_ERROR, "oneDNN: status %d from %s", (int)status, call);
    return -EIO;
}

bool nn_is_made(dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        nn_room_short();
    return status == dnnl_success;
}

static const dnnl_dims_t no_dilation;

static dnnl_alg_kind_t algorithm_of(const struct nn_op *op)
{
    return op->winograd != 0 ? dnnl_convolution_winograd : dnnl_convolution_direct;
}

/* For evaluation alone, Winograd's algorithm wants its weights in a layout that nothing else reads. */
static dnnl_prop_kind_t forward_kind(const struct nn_op *op)
{
    return op->training || op->winograd != 0 ? dnnl_forward_training : dnnl_forward_inference;
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t post_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
}

static dnnl_status_t post_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t convolution_create(const struct nn_op *op, dnnl_engine_t engine,
                                        const_dnnl_primitive_desc_t forward, dnnl_primitive_attr_t attr,
                                        dnnl_primitive_desc_t *pd)
{
    const dnnl_alg_kind_t algorithm = algorithm_of(op);
    if (op->direction == NN_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(pd, engine, forward_kind(op), algorithm, op->src,
            op->weights, op->bias, op->dst, op->strides, no_dilation, op->pad_before, op->pad_after, attr);
    if (op->direction == NN_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(pd, engine, algorithm, op->src, op->weights,
            op->dst, op->strides, no_dilation, op->pad_before, op->pad_after, forward, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, engine, algorithm, op->src, op->weights,
        op->bias, op->dst, op->strides, no_dilation, op->pad_before, op->pad_after, forward, attr);
}

static dnnl_status_t inner_product_create(const struct nn_op *op, dnnl_engine_t engine,
                                          const_dnnl_primitive_desc_t forward, dnnl_primitive_attr_t attr,
                                          dnnl_primitive_desc_t *pd)
{
    if (op->direction == NN_FORWARD)
        return dnnl_inner_product_forward_primitive_desc_create(pd, engine, forward_kind(op), op->src, op->weights,
            op->bias, op->dst, attr);
    if (op->direction == NN_BACKWARD_DATA)
        return dnnl_inner_product_backward_data_primitive_desc_create(pd, engine, op->src, op->weights, op->dst,
            forward, attr);
    return dnnl_inner_product_backward_weights_primitive_desc_create(pd, engine, op->src, op->weights, op->bias,
        op->dst, forward, attr);
}

static dnnl_status_t max_pool_create(const struct nn_op *op, dnnl_engine_t engine,
                                     const_dnnl_primitive_desc_t forward, dnnl_primitive_attr_t attr,
                                     dnnl_primitive_desc_t *pd)
{
    if (op->direction == NN_FORWARD)
        return dnnl_pooling_forward_primitive_desc_create(pd, engine, forward_kind(op), dnnl_pooling_max, op->src,
            op->dst, op->strides, op->kernel, no_dilation, op->pad_before, op->pad_after, attr);
    return dnnl_pooling_backward_primitive_desc_create(pd, engine, dnnl_pooling_max, op->src, op->dst, op->strides,
        op->kernel, no_dilation, op->pad_before, op->pad_after, forward, attr);
}

static int op_list(const struct nn_op *op, dnnl_engine_t engine, const_dnnl_primitive_desc_t forward,
                   dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pds_out)
{
    static dnnl_status_t (*const create[])(const struct nn_op *, dnnl_engine_t, const_dnnl_primitive_desc_t,
                                           dnnl_primitive_attr_t, dnnl_primitive_desc_t *) = {
        [NN_CONVOLUTION] = convolution_create,
        [NN_INNER_PRODUCT] = inner_product_create,
        [NN_MAX_POOL] = max_pool_create,
    };
    dnnl_primitive_desc_t pd = NULL;
    if (!nn_is_made(create[op->kind](op, engine, forward, attr, &pd)))
        return 0;
    int count = 0;
    do {
        if (!nn_is_made(dnnl_primitive_desc_clone(&pds_out[count], pd)))
            break;
        count++;
    } while (count < NN_IMPLEMENTATIONS_MAX && nn_is_made(dnnl_primitive_desc_next_impl(pd)));
    dnnl_primitive_desc_destroy(pd);
    return count;
}

#else

static dnnl_status_t post_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
}

static dnnl_status_t post_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

union op_desc {
    dnnl_convolution_desc_t convolution;
    dnnl_inner_product_desc_t inner_product;
    dnnl_pooling_v2_desc_t max_pool;
};

static dnnl_status_t convolution_init(const struct nn_op *op, union op_desc *desc)
{
    const dnnl_alg_kind_t algorithm = algorithm_of(op);
    if (op->direction == NN_FORWARD)
        return dnnl_dilated_convolution_forward_desc_init(&desc->convolution, forward_kind(op), algorithm, op->src,
            op->weights, op->bias, op->dst, op->strides, no_dilation, op->pad_before, op->pad_after);
    if (op->direction == NN_BACKWARD_DATA)
        return dnnl_dilated_convolution_backward_data_desc_init(&desc->convolution, algorithm, op->src, op->weights,
            op->dst, op->strides, no_dilation, op->pad_before, op->pad_after);
    return dnnl_dilated_convolution_backward_weights_desc_init(&desc->convolution, algorithm, op->src, op->weights,
        op->bias, op->dst, op->strides, no_dilation, op->pad_before, op->pad_after);
}

static dnnl_status_t inner_product_init(const struct nn_op *op, union op_desc *desc)
{
    if (op->direction == NN_FORWARD)
        return dnnl_inner_product_forward_desc_init(&desc->inner_product, forward_kind(op), op->src, op->weights,
            op->bias, op->dst);
    if (op->direction == NN_BACKWARD_DATA)
        return dnnl_inner_product_backward_data_desc_init(&desc->inner_product, op->src, op->weights, op->dst);
    return dnnl_inner_product_backward_weights_desc_init(&desc->inner_product, op->src, op->weights, op->bias,
        op->dst);
}

static dnnl_status_t max_pool_init(const struct nn_op *op, union op_desc *desc)
{
    if (op->direction == NN_FORWARD)
        return dnnl_pooling_v2_forward_desc_init(&desc->max_pool, forward_kind(op), dnnl_pooling_max, op->src,
            op->dst, op->strides, op->kernel, no_dilation, op->pad_before, op->pad_after);
    return dnnl_pooling_v2_backward_desc_init(&desc->max_pool, dnnl_pooling_max, op->src, op->dst, op->strides,
        op->kernel, no_dilation, op->pad_before, op->pad_after);
}

static int op_list(const struct nn_op *op, dnnl_engine_t engine, const_dnnl_primitive_desc_t forward,
                   dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pds_out)
{
    static dnnl_status_t (*const init[])(const struct nn_op *, union op_desc *) = {
        [NN_CONVOLUTION] = convolution_init,
        [NN_INNER_PRODUCT] = inner_product_init,
        [NN_MAX_POOL] = max_pool_init,
    };
    union op_desc desc;
    dnnl_primitive_desc_iterator_t iterator = NULL;
    if (!nn_is_made(init[op->kind](op, &desc))
        || !nn_is_made(dnnl_primitive_desc_iterator_create(&iterator, &desc, attr, engine, forward)))
        return 0;
    int count = 0;
    do {
        pds_out[count] = dnnl_primitive_desc_iterator_fetch(iterator);
        if (pds_out[count] == NULL)
            break;
        count++;
    } while (count < NN_IMPLEMENTATIONS_MAX && nn_is_made(dnnl_primitive_desc_iterator_next(iterator)));
    dnnl_primitive_desc_iterator_destroy(iterator);
    return count;
}

#endif

/* What `op` does to its result, in the order of the arguments' places. */
static int append_posts(const struct nn_op *op, dnnl_post_ops_t ops)
{
    int rc = 0;
    if (op->line != NULL)
        rc = NN_CHECK(dnnl_post_ops_append_binary(ops, dnnl_binary_mul, op->line));
    if (rc == 0 && op->line != NULL)
        rc = NN_CHECK(dnnl_post_ops_append_binary(ops, dnnl_binary_add, op->line));
    if (rc == 0 && op->sums)
        rc = NN_CHECK(post_sum(ops));
    return rc == 0 && op->relu ? NN_CHECK(post_relu(ops)) : rc;
}

static int set_posts(const struct nn_op *op, dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t ops;
    int rc = NN_CHECK(dnnl_post_ops_create(&ops));
    if (rc != 0)
        return rc;
    rc = append_posts(op, ops);
    if (rc == 0)
        rc = NN_CHECK(dnnl_primitive_attr_set_post_ops(attr, ops));
    dnnl_post_ops_destroy(ops);
    return rc;
}

/* Of a primitive with the scratchpad in user mode; op NULL: one that does nothing further. */
static dnnl_primitive_attr_t attr_open(const struct nn_op *op)
{
    dnnl_primitive_attr_t attr = NULL;
    if (NN_CHECK(dnnl_primitive_attr_create(&attr)))
        return NULL;
    int rc = NN_CHECK(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (rc == 0 && op != NULL)
        rc = set_posts(op, attr);
    if (rc == 0)
        return attr;
    dnnl_primitive_attr_destroy(attr);
    return NULL;
}

int nn_op_list(const struct nn_op *op, dnnl_engine_t engine, const_dnnl_primitive_desc_t forward,
               dnnl_primitive_desc_t *pds_out)
{
    if (nn_room_hold() != 0)
        return 0;
    int count = 0;
    dnnl_primitive_attr_t attr = attr_open(op);
    if (attr != NULL) {
        count = op_list(op, engine, forward, attr, pds_out);
        dnnl_primitive_attr_destroy(attr);
    }
    nn_room_release();
    return count;
}

/* The sets of instructions are masks: one holds those it builds on. */
static bool is_taken(unsigned needed)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & needed) == needed;
}

enum instructions nn_instructions(void)
{
    static const unsigned needed[] = {
        [INSTRUCTIONS_AVX2] = dnnl_cpu_isa_avx2,
        [INSTRUCTIONS_AVX512] = dnnl_cpu_isa_avx512_core,
        [INSTRUCTIONS_BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [INSTRUCTIONS_AMX] = dnnl_cpu_isa_avx512_core_amx,
    };
    enum instructions newest = INSTRUCTIONS_AMX;
    while (newest > INSTRUCTIONS_BASE && !is_taken(needed[newest]))
        newest--;
    return newest;
}

bool nn_has_bf16(void)
{
    return is_taken(dnnl_cpu_isa_avx512_core_bf16);
}

const char *nn_pd_name(const_dnnl_primitive_desc_t pd)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success || name == NULL)
        return "unknown";
    return name;
}

bool nn_pd_is_ref(const_dnnl_primitive_desc_t pd)
{
    const char *name = nn_pd_name(pd);
    return strncmp(name, "ref", 3) == 0 || strstr(name, "ref:any") != NULL;
}

int nn_primitive_create(dnnl_primitive_t *primitive_out, const_dnnl_primitive_desc_t pd)
{
    int rc = nn_room_hold();
    if (rc != 0)
        return rc;
    rc = NN_CHECK(dnnl_primitive_create(primitive_out, pd));
    nn_room_release();
    return rc;
}

int nn_memory_create(dnnl_memory_t *memory_out, nn_md md, dnnl_engine_t engine, void *data)
{
    return NN_CHECK(dnnl_memory_create(memory_out, md, engine, data));
}

int nn_reorder_create(dnnl_primitive_desc_t *pd_out, nn_md from, nn_md to, dnnl_engine_t engine)
{
    int rc = nn_room_hold();
    if (rc != 0)
        return rc;
    dnnl_primitive_attr_t attr = attr_open(NULL);
    rc = attr == NULL ? -ENOMEM : NN_CHECK(dnnl_reorder_primitive_desc_create(pd_out, from, engine, to, engine, attr));
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    nn_room_release();
    return rc;
}
