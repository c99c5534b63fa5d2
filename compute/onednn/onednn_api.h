/* The part of oneDNN this program uses, the same for the 2.6 and the 3.x C API.
 * 2.x has memory descriptors as values and operation descriptors; 3.x has handles and
 * one creation function per primitive. Only onednn_api.c and onednn_md.c know which it is. */
#ifndef PIPETRAIN_ONEDNN_API_H
#define PIPETRAIN_ONEDNN_API_H

#include <stdbool.h>
#include <stddef.h>

#include <oneapi/dnnl/dnnl.h>

#include "compute/backend.h"

/* An owned memory descriptor; released with nn_md_release (NULL is accepted). */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t nn_md;
#else
typedef dnnl_memory_desc_t *nn_md;
#endif

#define NN_RANK_MAX 4
#define NN_IMPLEMENTATIONS_MAX 32

/* Every oneDNN call goes through here: the status as 0 or a negative errno, logged once with the text of
 * the call; -ENOMEM is left to the caller to tell. */
#define NN_CHECK(call) nn_check((call), #call)
int nn_check(dnnl_status_t status, const char *call);
/* Of a call that may find that there is nothing of the kind. That memory is short is noted (onednn_room.h). */
bool nn_is_made(dnnl_status_t status);

/* The result is NULL when memory is short, which is noted (onednn_room.h), or the description is not possible. */
nn_md nn_md_any(int rank, const dnnl_dim_t *dims, dnnl_data_type_t type);
nn_md nn_md_tag(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag, dnnl_data_type_t type);
/* The same dimensions and type in any layout; of NULL NULL. */
nn_md nn_md_loose(nn_md md);
/* The same dimensions as numbers of `type`: of the same layout when it is a plain one or the type is the
 * same, else of any. */
nn_md nn_md_typed(nn_md md, dnnl_data_type_t type);
/* The descriptor of one argument (DNNL_ARG_...) of a primitive, as a copy. */
nn_md nn_md_of(const_dnnl_primitive_desc_t pd, int arg);
void nn_md_release(nn_md md);
bool nn_md_equal(nn_md a, nn_md b);
size_t nn_md_bytes(nn_md md);
/* The memory a primitive works in beside its arguments. How often oneDNN lists an implementation depends on what
 * other towers have made, so what is asked of each of them makes nothing. */
size_t nn_pd_scratch_bytes(const_dnnl_primitive_desc_t pd);
/* The logical dimensions, also of a descriptor without a layout yet. Returns the rank,
 * 0 when it is above NN_RANK_MAX. */
int nn_md_dims(nn_md md, dnnl_dim_t dims_out[NN_RANK_MAX]);

/* How a plain or blocked layout places its elements. */
struct nn_layout {
    int rank;
    dnnl_dim_t dims[NN_RANK_MAX];           /* logical sizes */
    dnnl_dim_t padded[NN_RANK_MAX];         /* sizes rounded up to whole blocks */
    dnnl_dim_t strides[NN_RANK_MAX];        /* between blocks, in elements */
    int block_count;                        /* inner blocks, outermost first */
    dnnl_dim_t blocks[DNNL_MAX_NDIMS];
    dnnl_dim_t block_dims[DNNL_MAX_NDIMS];  /* the dimension each splits */
};
/* 0, or -ENOTSUP for a layout that is not plain or blocked. */
int nn_md_layout(nn_md md, struct nn_layout *layout_out);
/* Letters as in oneDNN's tags, e.g. "aBcd8b"; capital letters are blocked dimensions. */
void nn_md_describe(nn_md md, char *text, size_t text_size);

enum nn_kind { NN_CONVOLUTION, NN_INNER_PRODUCT, NN_MAX_POOL };
enum nn_direction { NN_FORWARD, NN_BACKWARD_DATA, NN_BACKWARD_WEIGHTS };

/* Post-operations of a forward primitive, by the place of their argument: see NN_ARG_FACTOR. */
enum { NN_POST_FACTOR, NN_POST_SHIFT };
#define NN_ARG_FACTOR (DNNL_ARG_ATTR_MULTIPLE_POST_OP(NN_POST_FACTOR) | DNNL_ARG_SRC_1)
#define NN_ARG_SHIFT (DNNL_ARG_ATTR_MULTIPLE_POST_OP(NN_POST_SHIFT) | DNNL_ARG_SRC_1)

/* One primitive to be made. In the backward directions the descriptors of what has a
 * gradient there stand for that gradient. Descriptors are lent. */
struct nn_op {
    enum nn_kind kind;
    enum nn_direction direction;
    size_t winograd;            /* a convolution by Winograd's algorithm, with so many bytes of scratch memory
                                 * at most; 0: directly */
    bool training;              /* forward: backward follows */
    nn_md line;                 /* forward: of a factor and a shift by channel, arguments NN_ARG_FACTOR and
                                 * NN_ARG_SHIFT, that the result is changed by; NULL: of none */
    bool sums;                  /* forward: then what is in the result's place is added */
    bool relu;                  /* forward: and at last ReLU */
    nn_md src, weights, bias, dst;
    dnnl_dims_t strides, kernel, pad_before, pad_after;     /* height, width */
};

/* Descriptors of all implementations oneDNN has for `op`, fastest first in its own
 * judgement, at most NN_IMPLEMENTATIONS_MAX; the caller destroys them. Returns their
 * number, 0 when there is none. `forward` is the forward descriptor of a backward one. */
int nn_op_list(const struct nn_op *op, dnnl_engine_t engine, const_dnnl_primitive_desc_t forward,
               dnnl_primitive_desc_t *pds_out);
/* The newest instructions that oneDNN takes here: those of the CPU that it knows, and ONEDNN_MAX_CPU_ISA allows. */
enum instructions nn_instructions(void);
/* Whether oneDNN computes products of bf16 with the CPU's instructions for them: AVX512-BF16, or AMX. */
bool nn_has_bf16(void);
/* The implementation's name, valid as long as pd. */
const char *nn_pd_name(const_dnnl_primitive_desc_t pd);
/* Whether this is one of oneDNN's slow plain-loop implementations. */
bool nn_pd_is_ref(const_dnnl_primitive_desc_t pd);

int nn_primitive_create(dnnl_primitive_t *primitive_out, const_dnnl_primitive_desc_t pd);
int nn_memory_create(dnnl_memory_t *memory_out, nn_md md, dnnl_engine_t engine, void *data);
/* With scratchpad in user mode. */
int nn_reorder_create(dnnl_primitive_desc_t *pd_out, nn_md from, nn_md to, dnnl_engine_t engine);

#endif
