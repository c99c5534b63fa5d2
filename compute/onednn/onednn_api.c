/* oneDNN's C API: one set of functions for versions 2.6 and 3.x, and the checks that its JIT compiler finds memory.
 * Called while plans are made, from the tower's thread; nothing here runs in a step. */
#include "compute/onednn/onednn_api.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/address_space.h"
#include "stage/log.h"

/* ---- memory of the JIT compiler ---- */

static atomic_uint planning_towers;
static pthread_rwlock_t jit_lock = PTHREAD_RWLOCK_INITIALIZER;    /* read lock: a call compiles; write lock: memory is
                                                                   * checked */
static _Thread_local bool is_out_of_memory;

void nn_jit_add_tower(void)
{
    atomic_fetch_add(&planning_towers, 1);
}

void nn_jit_remove_tower(void)
{
    atomic_fetch_sub(&planning_towers, 1);
}

int nn_jit_check_memory(void)
{
    const size_t towers = atomic_load(&planning_towers);
    pthread_rwlock_wrlock(&jit_lock);
    const int rc = check_address_space((towers > 0 ? towers : 1) * NN_JIT_BYTES);
    pthread_rwlock_unlock(&jit_lock);
    if (rc != 0)
        nn_jit_out_of_memory();
    return rc;
}

/* Other towers may compile between the check and the lock, but take at most their share of the memory that was
 * checked. */
int nn_jit_begin(void)
{
    const int rc = nn_jit_check_memory();
    if (rc == 0)
        pthread_rwlock_rdlock(&jit_lock);
    return rc;
}

void nn_jit_end(void)
{
    pthread_rwlock_unlock(&jit_lock);
}

void nn_jit_out_of_memory(void)
{
    is_out_of_memory = true;
}

int nn_jit_result(int rc)
{
    const bool was_out_of_memory = is_out_of_memory;
    is_out_of_memory = false;
    return was_out_of_memory ? -ENOMEM : rc;
}

/* ---- statuses ---- */

int nn_check(dnnl_status_t status, const char *call)
{
    if (status == dnnl_success)
        return 0;
    if (status == dnnl_out_of_memory) {
        nn_jit_out_of_memory();
        return -ENOMEM;
    }
    log_message(LOG_ERROR, "oneDNN: status %d from %s", (int)status, call);
    return -EIO;
}

bool nn_is_made(dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        nn_jit_out_of_memory();
    return status == dnnl_success;
}

/* ---- memory descriptors ---- */

#if DNNL_VERSION_MAJOR >= 3

nn_md nn_md_tag(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag, dnnl_data_type_t type)
{
    dnnl_memory_desc_t md = NULL;
    return nn_is_made(dnnl_memory_desc_create_with_tag(&md, rank, dims, type, tag)) ? md : NULL;
}

static nn_md md_strided(int rank, const dnnl_dims_t dims, const dnnl_dims_t strides, dnnl_data_type_t type)
{
    dnnl_memory_desc_t md = NULL;
    return nn_is_made(dnnl_memory_desc_create_with_strides(&md, rank, dims, type, strides)) ? md : NULL;
}

static dnnl_data_type_t md_type(nn_md md)
{
    dnnl_data_type_t type = dnnl_data_type_undef;
    return dnnl_memory_desc_query(md, dnnl_query_data_type, &type) == dnnl_success ? type : dnnl_data_type_undef;
}

static nn_md md_copy(const_dnnl_memory_desc_t md)
{
    dnnl_memory_desc_t copy = NULL;
    return nn_is_made(dnnl_memory_desc_clone(&copy, md)) ? copy : NULL;
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

#else

static nn_md md_copy(const dnnl_memory_desc_t *md)
{
    nn_md copy = malloc(sizeof(*copy));
    if (copy != NULL)
        *copy = *md;
    else
        nn_jit_out_of_memory();
    return copy;
}

nn_md nn_md_tag(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag, dnnl_data_type_t type)
{
    dnnl_memory_desc_t md;
    return dnnl_memory_desc_init_by_tag(&md, rank, dims, type, tag) == dnnl_success ? md_copy(&md) : NULL;
}

static nn_md md_strided(int rank, const dnnl_dims_t dims, const dnnl_dims_t strides, dnnl_data_type_t type)
{
    dnnl_memory_desc_t md;
    return dnnl_memory_desc_init_by_strides(&md, rank, dims, type, strides) == dnnl_success ? md_copy(&md) : NULL;
}

static dnnl_data_type_t md_type(nn_md md)
{
    return md->data_type;
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

#endif

size_t nn_layout_offset(const struct nn_layout *layout, int dim, dnnl_dim_t index)
{
    dnnl_dim_t offset = 0, inner = 1;
    for (int b = layout->block_count; b-- > 0; inner *= layout->blocks[b]) {
        if (layout->block_dims[b] != dim)
            continue;
        offset += index % layout->blocks[b] * inner;
        index /= layout->blocks[b];
    }
    return (size_t)(offset + index * layout->strides[dim]);
}

nn_md nn_md_any(int rank, const dnnl_dim_t *dims, dnnl_data_type_t type)
{
    return nn_md_tag(rank, dims, dnnl_format_tag_any, type);
}

static nn_md md_any_of(nn_md md, dnnl_data_type_t type)
{
    dnnl_dims_t dims;
    const int rank = nn_md_dims(md, dims);
    return rank != 0 ? nn_md_any(rank, dims, type) : NULL;
}

nn_md nn_md_loose(nn_md md)
{
    return md != NULL ? md_any_of(md, md_type(md)) : NULL;
}

nn_md nn_md_nhwc(nn_md md)
{
    dnnl_dims_t dims;
    return nn_md_dims(md, dims) == 4 ? nn_md_tag(4, dims, dnnl_acdb, md_type(md)) : NULL;
}

static nn_md md_plain(const struct nn_layout *layout, dnnl_data_type_t type)
{
    const size_t size = (size_t)layout->rank * sizeof(dnnl_dim_t);
    dnnl_dims_t dims = { 0 }, strides = { 0 };
    memcpy(dims, layout->dims, size);
    memcpy(strides, layout->strides, size);
    return md_strided(layout->rank, dims, strides, type);
}

nn_md nn_md_typed(nn_md md, dnnl_data_type_t type)
{
    struct nn_layout layout;
    if (md_type(md) == type)
        return md_copy(md);
    if (nn_md_layout(md, &layout) == 0 && layout.block_count == 0)
        return md_plain(&layout, type);
    return md_any_of(md, type);
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

size_t nn_pd_scratch_bytes(const_dnnl_primitive_desc_t pd)
{
    return dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, DNNL_ARG_SCRATCHPAD));
}

/* Orders the dimensions from the largest stride to the smallest; equal strides (of sizes of 1) keep their order. */
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

/* ---- primitives ---- */

static const dnnl_dims_t no_dilation;

static dnnl_alg_kind_t algorithm_of(const struct nn_op *op)
{
    return op->winograd != 0 ? dnnl_convolution_winograd : dnnl_convolution_direct;
}

/* With forward_inference, Winograd's algorithm requires its weights in a layout that no other primitive reads. */
static dnnl_prop_kind_t forward_kind(const struct nn_op *op)
{
    return op->training || op->winograd != 0 ? dnnl_forward_training : dnnl_forward_inference;
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t post_eltwise(dnnl_post_ops_t ops, struct nn_eltwise of)
{
    return dnnl_post_ops_append_eltwise(ops, of.kind, of.alpha, of.beta);
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

static dnnl_status_t post_eltwise(dnnl_post_ops_t ops, struct nn_eltwise of)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, of.kind, of.alpha, of.beta);
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

/* Appends the post-operations of `op`. Their order determines the indices of their arguments: NN_ARG_FACTOR,
 * NN_ARG_SHIFT. */
static int append_posts(const struct nn_op *op, dnnl_post_ops_t ops)
{
    int rc = 0;
    if (op->line != NULL)
        rc = NN_CHECK(dnnl_post_ops_append_binary(ops, dnnl_binary_mul, op->line));
    if (rc == 0 && op->line != NULL)
        rc = NN_CHECK(dnnl_post_ops_append_binary(ops, dnnl_binary_add, op->line));
    if (rc == 0 && op->sums)
        rc = NN_CHECK(post_sum(ops));
    if (rc == 0 && op->relu)
        rc = NN_CHECK(post_eltwise(ops, (struct nn_eltwise){ .kind = dnnl_eltwise_relu }));
    return rc == 0 && op->eltwise.kind != dnnl_alg_kind_undef ? NN_CHECK(post_eltwise(ops, op->eltwise)) : rc;
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

/* Opens the attributes of a primitive: the scratchpad in user mode, and the post-operations of `op` (NULL: none). */
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
    if (nn_jit_begin() != 0)
        return 0;
    int count = 0;
    dnnl_primitive_attr_t attr = attr_open(op);
    if (attr != NULL) {
        count = op_list(op, engine, forward, attr, pds_out);
        dnnl_primitive_attr_destroy(attr);
    }
    nn_jit_end();
    return count;
}

/* Instruction sets are bit masks; the mask of a set includes those of the sets that it extends. */
static bool cpu_has(unsigned isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & isa) == isa;
}

/* ONEDNN_DEFAULT_FPMATH_MODE lowers the precision of fp32, ONEDNN_CPU_ISA_HINTS changes the kernels. Hints can only be
 * set before anything has read them: of several towers the first one sets them. */
void nn_ignore_environment(void)
{
    (void)dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
    (void)dnnl_set_cpu_isa_hints(dnnl_cpu_isa_no_hints);
}

enum instructions nn_instructions(void)
{
    static const unsigned needed[] = {
        [INSTRUCTIONS_SSE41] = dnnl_cpu_isa_sse41,
        [INSTRUCTIONS_AVX] = dnnl_cpu_isa_avx,
        [INSTRUCTIONS_AVX2] = dnnl_cpu_isa_avx2,
        [INSTRUCTIONS_AVX512] = dnnl_cpu_isa_avx512_core,
        [INSTRUCTIONS_BF16] = dnnl_cpu_isa_avx512_core_bf16,
        [INSTRUCTIONS_AMX] = dnnl_cpu_isa_avx512_core_amx,
    };
    enum instructions newest = INSTRUCTIONS_AMX;
    while (newest > INSTRUCTIONS_BASE && !cpu_has(needed[newest]))
        newest--;
    return newest;
}

bool nn_has_bf16(void)
{
    return cpu_has(dnnl_cpu_isa_avx512_core_bf16);
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
    int rc = nn_jit_begin();
    if (rc != 0)
        return rc;
    rc = NN_CHECK(dnnl_primitive_create(primitive_out, pd));
    nn_jit_end();
    return rc;
}

int nn_memory_create(dnnl_memory_t *memory_out, nn_md md, dnnl_engine_t engine, void *data)
{
    return NN_CHECK(dnnl_memory_create(memory_out, md, engine, data));
}

int nn_reorder_create(dnnl_primitive_desc_t *pd_out, nn_md from, nn_md to, dnnl_engine_t engine)
{
    int rc = nn_jit_begin();
    if (rc != 0)
        return rc;
    dnnl_primitive_attr_t attr = attr_open(NULL);
    rc = attr == NULL ? -ENOMEM : NN_CHECK(dnnl_reorder_primitive_desc_create(pd_out, from, engine, to, engine, attr));
    if (attr != NULL)
        dnnl_primitive_attr_destroy(attr);
    nn_jit_end();
    return rc;
}
