/* Memory descriptors by the two C APIs of oneDNN. Called when plans are made, from the tower's
 * thread; nothing here runs in a step. */
#include "compute/onednn/onednn_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/onednn/onednn_room.h"

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
        nn_room_short();
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
