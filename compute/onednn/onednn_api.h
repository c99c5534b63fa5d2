/* The part of oneDNN that this program uses, the same for the 2.6 and the 3.x C API. 2.x has memory descriptors as
 * values and operation descriptors; 3.x has handles and one creation function per primitive. Only onednn_api.c depends
 * on the version. */
#ifndef PIPETRAIN_ONEDNN_API_H
#define PIPETRAIN_ONEDNN_API_H

#include <stdbool.h>
#include <stddef.h>

#include <oneapi/dnnl/dnnl.h>

#include "compute/backend.h"

/* ---- memory of the JIT compiler ----
 *
 * oneDNN maps the memory of compiled kernels itself. When the address space is exhausted it ends the process, by an
 * uncaught C++ exception or a write to NULL. So free address space is checked before each call that may compile. A
 * call that then still fails for lack of memory is reported as -ENOMEM. */

/* Bytes that must be free for each tower that plans. A call takes up to 3 MiB, most take far less: in runs under
 * every limit of the address space (ulimit -v, mnist_cnn and resnet20_v1, AVX-512) some crashed with 2 MiB and none
 * with 3. */
#define NN_JIT_BYTES ((size_t)16 << 20)

/* Call the first before a tower makes its plans, the second when the tower is closed. Towers plan at the same time,
 * each in its thread. */
void nn_jit_add_tower(void);
void nn_jit_remove_tower(void);
/* Is there enough free address space? 0, or -ENOMEM, which nn_jit_result then returns. Waits while another tower is
 * between nn_jit_begin and nn_jit_end. */
int nn_jit_check_memory(void);
/* Around each call that may compile: nn_jit_check_memory, and until nn_jit_end no other tower checks, because a check
 * briefly maps the memory that must be free. The lock is shared, and is not held when the result is not 0. */
int nn_jit_begin(void);
void nn_jit_end(void);
/* A call failed for lack of memory. */
void nn_jit_out_of_memory(void);
/* `rc`, or -ENOMEM when a call of this thread ran out of memory since the last nn_jit_result. */
int nn_jit_result(int rc);

/* ---- memory descriptors ----
 *
 * An owned memory descriptor; released with nn_md_release (NULL is accepted). */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t nn_md;
#else
typedef dnnl_memory_desc_t *nn_md;
#endif

#define NN_RANK_MAX 5
#define NN_IMPLEMENTATIONS_MAX 32

/* Every oneDNN call goes through here. Returns 0 or a negative errno; logs the status and the text of the call, but
 * for -ENOMEM, which the caller reports. */
#define NN_CHECK(call) nn_check((call), #call)
int nn_check(dnnl_status_t status, const char *call);
/* The same for a call that may find no implementation: true when it succeeded; calls nn_jit_out_of_memory when it
 * failed for lack of memory. */
bool nn_is_made(dnnl_status_t status);

/* NULL when there is no memory (noted, see nn_jit_result) or oneDNN cannot describe it. */
nn_md nn_md_any(int rank, const dnnl_dim_t *dims, dnnl_data_type_t type);
nn_md nn_md_tag(int rank, const dnnl_dim_t *dims, dnnl_format_tag_t tag, dnnl_data_type_t type);
/* The same dimensions and type in any layout; NULL for NULL. */
nn_md nn_md_loose(nn_md md);
/* The same dimensions and type with channels last; NULL for other ranks than 4. */
nn_md nn_md_nhwc(nn_md md);
/* The same dimensions with data type `type`: in the same layout when it is plain or has that type already, else in
 * any. */
nn_md nn_md_typed(nn_md md, dnnl_data_type_t type);
/* A copy of the descriptor of one argument (DNNL_ARG_...) of a primitive. */
nn_md nn_md_of(const_dnnl_primitive_desc_t pd, int arg);
void nn_md_release(nn_md md);
bool nn_md_equal(nn_md a, nn_md b);
size_t nn_md_bytes(nn_md md);
/* Bytes of a primitive's scratchpad. The function must not create a descriptor, because the number of implementations
 * that oneDNN lists depends on the descriptors that other towers have created. */
size_t nn_pd_scratch_bytes(const_dnnl_primitive_desc_t pd);
/* The logical dimensions, also of a descriptor without a layout. Returns the rank, 0 when it is above NN_RANK_MAX. */
int nn_md_dims(nn_md md, dnnl_dim_t dims_out[NN_RANK_MAX]);

/* A plain or blocked layout. */
struct nn_layout {
    int rank;
    dnnl_dim_t dims[NN_RANK_MAX];           /* logical sizes */
    dnnl_dim_t padded[NN_RANK_MAX];         /* sizes rounded up to whole blocks */
    dnnl_dim_t strides[NN_RANK_MAX];        /* between blocks, in elements */
    int block_count;                        /* inner blocks, outermost first */
    dnnl_dim_t blocks[DNNL_MAX_NDIMS];
    dnnl_dim_t block_dims[DNNL_MAX_NDIMS];  /* the dimension that each splits */
};
/* 0, or -ENOTSUP for a layout that is not plain or blocked. */
int nn_md_layout(nn_md md, struct nn_layout *layout_out);
/* Offset of index `index` along dimension `dim`. Blocked layouts place every dimension independently, so offsets of
 * dimensions add up. A missing dimension has index 0 only. */
size_t nn_layout_offset(const struct nn_layout *layout, int dim, dnnl_dim_t index);
/* Letters as in oneDNN's tags, e.g. "aBcd8b"; capital letters are blocked dimensions. */
void nn_md_describe(nn_md md, char *text, size_t text_size);

enum nn_kind { NN_CONVOLUTION, NN_INNER_PRODUCT, NN_MAX_POOL };
enum nn_direction { NN_FORWARD, NN_BACKWARD_DATA, NN_BACKWARD_WEIGHTS };

/* Post-operations of a forward primitive, by the index of their argument. */
enum { NN_POST_FACTOR, NN_POST_SHIFT };
#define NN_ARG_FACTOR (DNNL_ARG_ATTR_MULTIPLE_POST_OP(NN_POST_FACTOR) | DNNL_ARG_SRC_1)
#define NN_ARG_SHIFT (DNNL_ARG_ATTR_MULTIPLE_POST_OP(NN_POST_SHIFT) | DNNL_ARG_SRC_1)

/* A function of every number of the result; kind dnnl_alg_kind_undef: none. */
struct nn_eltwise { dnnl_alg_kind_t kind; float alpha, beta; };

/* A primitive to be created. In the backward directions a descriptor stands for the gradient where the primitive has
 * one. Descriptors are lent. */
struct nn_op {
    enum nn_kind kind;
    enum nn_direction direction;
    size_t winograd;            /* convolution by Winograd's algorithm with at most this many bytes of scratchpad; 0:
                                 * direct */
    bool training;              /* forward: a backward pass follows */
    nn_md line;                 /* forward: descriptor of a factor and a shift per channel that are applied to the
                                 * result, arguments NN_ARG_FACTOR and NN_ARG_SHIFT; NULL: none */
    bool sums;                  /* forward: then the previous contents of dst are added */
    bool relu;                  /* forward: ReLU at the end */
    struct nn_eltwise eltwise;  /* forward: another function at the end */
    nn_md src, weights, bias, dst;
    dnnl_dims_t strides, kernel, pad_before, pad_after;     /* height, width */
};

/* Descriptors of all implementations of `op`, in oneDNN's order (fastest first), at most NN_IMPLEMENTATIONS_MAX; the
 * caller destroys them. Returns their number, 0 when there is none. `forward` is the forward descriptor of a
 * backward primitive. */
int nn_op_list(const struct nn_op *op, dnnl_engine_t engine, const_dnnl_primitive_desc_t forward,
               dnnl_primitive_desc_t *pds_out);
/* Make oneDNN compute in spec.precision, whatever environment variables request. To be called before the first
 * primitive is created. */
void nn_ignore_environment(void);
/* The newest instruction set that oneDNN uses on this CPU, limited by ONEDNN_MAX_CPU_ISA. */
enum instructions nn_instructions(void);
/* Does oneDNN multiply bf16 in hardware: by AVX512-BF16 or AMX? */
bool nn_has_bf16(void);
/* The implementation's name, valid as long as pd. */
const char *nn_pd_name(const_dnnl_primitive_desc_t pd);
/* Is it one of oneDNN's slow reference implementations? */
bool nn_pd_is_ref(const_dnnl_primitive_desc_t pd);

int nn_primitive_create(dnnl_primitive_t *primitive_out, const_dnnl_primitive_desc_t pd);
int nn_memory_create(dnnl_memory_t *memory_out, nn_md md, dnnl_engine_t engine, void *data);
/* With scratchpad in user mode. */
int nn_reorder_create(dnnl_primitive_desc_t *pd_out, nn_md from, nn_md to, dnnl_engine_t engine);

#endif
