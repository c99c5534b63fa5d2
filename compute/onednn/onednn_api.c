/* The two C APIs of oneDNN behind one. Called when plans are made, from the tower's
 * thread; nothing here runs in a step. */
#include "compute/onednn/onednn_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Of a call that may find that there is nothing of the kind. */
static bool is_made(dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        nn_room_short();
    return status == dnnl_success;
}

static const dnnl_dims_t no_dilation;

#if DNNL_VERSION_MAJOR >= 3

nn_md nn_md_tag(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md = NULL;
    return is_made(dnnl_memory_desc_create_with_tag(&md, rank, dims, dnnl_f32, tag)) ? md : NULL;
}

static nn_md md_copy(const_dnnl_memory_desc_t md)
{
    dnnl_memory_desc_t copy = NULL;
    return is_made(dnnl_memory_desc_clone(&copy, md)) ? copy : NULL;
}

void nn_md_release(nn_md md)
{
    if (md)
        dnnl_memory_desc_destroy(md);
}

int nn_md_dims(nn_md md, dnnl_dim_t dims_out[NN_RANK_MAX])
{
    const dnnl_dims_t *dims;
    int rank;
    if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &rank) || rank > NN_RANK_MAX
        || dnnl_memory_desc_query(md, dnnl_query_dims, &dims))
        return 0;
    memcpy(dims_out, *dims, (size_t)rank * sizeof(dnnl_dim_t));
    return rank;
}

int nn_md_layout(nn_md md, struct nn_layout *layout_out)
{
    struct nn_layout layout = { 0 };
    const dnnl_dims_t *padded, *strides, *blocks, *block_dims;
    dnnl_format_kind_t format;
    layout.rank = nn_md_dims(md, layout.dims);
    if (layout.rank == 0 || dnnl_memory_desc_query(md, dnnl_query_format_kind, &format) || format != dnnl_blocked
        || dnnl_memory_desc_query(md, dnnl_query_padded_dims, &padded)
        || dnnl_memory_desc_query(md, dnnl_query_strides, &strides)
        || dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &layout.block_count)
        || dnnl_memory_desc_query(md, dnnl_query_inner_blks, &blocks)
        || dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &block_dims))
        return -ENOTSUP;
    const size_t size = (size_t)layout.rank * sizeof(dnnl_dim_t);
    memcpy(layout.padded, *padded, size);
    memcpy(layout.strides, *strides, size);
    memcpy(layout.blocks, *blocks, (size_t)layout.block_count * sizeof(dnnl_dim_t));
    memcpy(layout.block_dims, *block_dims, (size_t)layout.block_count * sizeof(dnnl_dim_t));
    *layout_out = layout;
    return 0;
}

static dnnl_status_t post_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
}

static dnnl_prop_kind_t forward_kind(const struct nn_op *op)
{
    return op->training ? dnnl_forward_training : dnnl_forward_inference;
}

static dnnl_status_t convolution_create(const struct nn_op *op, dnnl_engine_t engine,
                                        const_dnnl_primitive_desc_t forward, dnnl_primitive_attr_t attr,
                                        dnnl_primitive_desc_t *pd)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    if (op->direction == NN_FORWARD)
        return dnnl_convolution_forward_primitive_desc_create(pd, engine, forward_kind(op), direct, op->src,
            op->weights, op->bias, op->dst, op->strides, no_dilation, op->pad_before, op->pad_after, attr);
    if (op->direction == NN_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(pd, engine, direct, op->src, op->weights,
            op->dst, op->strides, no_dilation, op->pad_before, op->pad_after, forward, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(pd, engine, direct, op->src, op->weights,
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
    if (!is_made(create[op->kind](op, engine, forward, attr, &pd)))
        return 0;
    int count = 0;
    do {
        if (!is_made(dnnl_primitive_desc_clone(&pds_out[count], pd)))
            break;
        count++;
    } while (count < NN_IMPLEMENTATIONS_MAX && is_made(dnnl_primitive_desc_next_impl(pd)));
    dnnl_primitive_desc_destroy(pd);
    return count;
}

#else

static nn_md md_copy(const dnnl_memory_desc_t *md)
{
    nn_md copy = malloc(sizeof(*copy));
    if (copy != NULL)
        *copy = *md;
    else
        nn_room_short();
    return copy;
}

nn_md nn_md_tag(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    return dnnl_memory_desc_init_by_tag(&md, rank, dims, dnnl_f32, tag) == dnnl_success ? md_copy(&md) : NULL;
}

void nn_md_release(nn_md md)
{
    free(md);
}

int nn_md_dims(nn_md md, dnnl_dim_t dims_out[NN_RANK_MAX])
{
    if (md->ndims > NN_RANK_MAX)
        return 0;
    memcpy(dims_out, md->dims, (size_t)md->ndims * sizeof(dnnl_dim_t));
    return md->ndims;
}

int nn_md_layout(nn_md md, struct nn_layout *layout_out)
{
    struct nn_layout layout = { 0 };
    layout.rank = nn_md_dims(md, layout.dims);
    if (layout.rank == 0 || md->format_kind != dnnl_blocked)
        return -ENOTSUP;
    const dnnl_blocking_desc_t *blocking = &md->format_desc.blocking;
    const size_t size = (size_t)layout.rank * sizeof(dnnl_dim_t);
    memcpy(layout.padded, md->padded_dims, size);
    memcpy(layout.strides, blocking->strides, size);
    layout.block_count = blocking->inner_nblks;
    memcpy(layout.blocks, blocking->inner_blks, sizeof(layout.blocks));
    memcpy(layout.block_dims, blocking->inner_idxs, sizeof(layout.block_dims));
    *layout_out = layout;
    return 0;
}

static dnnl_status_t post_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
}

union op_desc {
    dnnl_convolution_desc_t convolution;
    dnnl_inner_product_desc_t inner_product;
    dnnl_pooling_v2_desc_t max_pool;
};

static dnnl_prop_kind_t forward_kind(const struct nn_op *op)
{
    return op->training ? dnnl_forward_training : dnnl_forward_inference;
}

static dnnl_status_t convolution_init(const struct nn_op *op, union op_desc *desc)
{
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    if (op->direction == NN_FORWARD)
        return dnnl_dilated_convolution_forward_desc_init(&desc->convolution, forward_kind(op), direct, op->src,
            op->weights, op->bias, op->dst, op->strides, no_dilation, op->pad_before, op->pad_after);
    if (op->direction == NN_BACKWARD_DATA)
        return dnnl_dilated_convolution_backward_data_desc_init(&desc->convolution, direct, op->src, op->weights,
            op->dst, op->strides, no_dilation, op->pad_before, op->pad_after);
    return dnnl_dilated_convolution_backward_weights_desc_init(&desc->convolution, direct, op->src, op->weights,
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
    if (!is_made(init[op->kind](op, &desc))
        || !is_made(dnnl_primitive_desc_iterator_create(&iterator, &desc, attr, engine, forward)))
        return 0;
    int count = 0;
    do {
        pds_out[count] = dnnl_primitive_desc_iterator_fetch(iterator);
        if (pds_out[count] == NULL)
            break;
        count++;
    } while (count < NN_IMPLEMENTATIONS_MAX && is_made(dnnl_primitive_desc_iterator_next(iterator)));
    dnnl_primitive_desc_iterator_destroy(iterator);
    return count;
}

#endif

nn_md nn_md_any(int rank, const dnnl_dim_t *dims)
{
    return nn_md_tag(rank, dims, dnnl_format_tag_any);
}

nn_md nn_md_of(const_dnnl_primitive_desc_t pd, int arg)
{
    return md_copy(dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg));
}

bool nn_md_equal(nn_md a, nn_md b)
{
    return dnnl_memory_desc_equal(a, b) != 0;
}

size_t nn_md_bytes(nn_md md)
{
    return dnnl_memory_desc_get_size(md);
}

/* Dimensions from the largest stride to the smallest; equal strides (sizes of 1) in order. */
static void stride_order(const struct nn_layout *layout, int *order)
{
    for (int i = 0; i < layout->rank; i++) {
        int place = i;
        while (place > 0 && layout->strides[order[place - 1]] < layout->strides[i]) {
            order[place] = order[place - 1];
            place--;
        }
        order[place] = i;
    }
}

void nn_md_describe(nn_md md, char *text, size_t text_size)
{
    struct nn_layout layout;
    if (nn_md_layout(md, &layout)) {
        snprintf(text, text_size, "opaque");
        return;
    }
    int order[NN_RANK_MAX];
    stride_order(&layout, order);
    char tag[NN_RANK_MAX + 1] = "";
    for (int i = 0; i < layout.rank; i++) {
        tag[i] = (char)('a' + order[i]);
        for (int b = 0; b < layout.block_count; b++)
            if (layout.block_dims[b] == order[i])
                tag[i] = (char)('A' + order[i]);
    }
    size_t used = (size_t)snprintf(text, text_size, "%s", tag);
    for (int b = 0; b < layout.block_count && used < text_size; b++)
        used += (size_t)snprintf(text + used, text_size - used, "%d%c", (int)layout.blocks[b],
                                 (char)('a' + layout.block_dims[b]));
}

static dnnl_primitive_attr_t attr_open(bool relu)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    if (NN_CHECK(dnnl_primitive_attr_create(&attr)))
        return NULL;
    int rc = NN_CHECK(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (rc == 0 && relu && (rc = NN_CHECK(dnnl_post_ops_create(&ops))) == 0) {
        rc = NN_CHECK(post_relu(ops));
        if (rc == 0)
            rc = NN_CHECK(dnnl_primitive_attr_set_post_ops(attr, ops));
        dnnl_post_ops_destroy(ops);
    }
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
    dnnl_primitive_attr_t attr = attr_open(op->relu);
    if (attr != NULL) {
        count = op_list(op, engine, forward, attr, pds_out);
        dnnl_primitive_attr_destroy(attr);
    }
    nn_room_release();
    return count;
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
    dnnl_primitive_attr_t attr = attr_open(false);
    rc = attr == NULL ? -ENOMEM : NN_CHECK(dnnl_reorder_primitive_desc_create(pd_out, from, engine, to, engine, attr));
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    nn_room_release();
    return rc;
}
