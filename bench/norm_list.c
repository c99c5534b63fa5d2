/* Batch normalisation as oneDNN 2.6 and 3.x describe it. */
#include "bench/norm_list.h"

#define EPSILON 1e-5f

static unsigned flags_of(bool relu)
{
    return dnnl_use_scale | dnnl_use_shift | (relu ? dnnl_fuse_norm_relu : 0);
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t create(dnnl_engine_t engine, nn_md values, bool relu, const_dnnl_primitive_desc_t forward,
                            dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd_out)
{
    if (forward == NULL)
        return dnnl_batch_normalization_forward_primitive_desc_create(pd_out, engine, dnnl_forward_training, values,
                                                                      values, EPSILON, flags_of(relu), attr);
    return dnnl_batch_normalization_backward_primitive_desc_create(pd_out, engine, dnnl_backward, values, values,
                                                                   values, EPSILON, flags_of(relu), forward, attr);
}

static int list(dnnl_engine_t engine, nn_md values, bool relu, const_dnnl_primitive_desc_t forward,
                dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pds_out)
{
    dnnl_primitive_desc_t pd = NULL;
    int count = 0;
    if (create(engine, values, relu, forward, attr, &pd) != dnnl_success)
        return 0;
    do
        count += dnnl_primitive_desc_clone(&pds_out[count], pd) == dnnl_success;
    while (count < NN_IMPLEMENTATIONS_MAX && dnnl_primitive_desc_next_impl(pd) == dnnl_success);
    dnnl_primitive_desc_destroy(pd);
    return count;
}

#else

static dnnl_status_t describe(nn_md values, bool relu, bool backward, dnnl_batch_normalization_desc_t *desc_out)
{
    if (!backward)
        return dnnl_batch_normalization_forward_desc_init(desc_out, dnnl_forward_training, values, EPSILON,
                                                          flags_of(relu));
    return dnnl_batch_normalization_backward_desc_init(desc_out, dnnl_backward, values, values, EPSILON,
                                                       flags_of(relu));
}

static int list(dnnl_engine_t engine, nn_md values, bool relu, const_dnnl_primitive_desc_t forward,
                dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pds_out)
{
    dnnl_batch_normalization_desc_t desc;
    dnnl_primitive_desc_iterator_t iterator = NULL;
    int count = 0;
    if (describe(values, relu, forward != NULL, &desc) != dnnl_success
        || dnnl_primitive_desc_iterator_create(&iterator, &desc, attr, engine, forward) != dnnl_success)
        return 0;
    do
        count += (pds_out[count] = dnnl_primitive_desc_iterator_fetch(iterator)) != NULL;
    while (count < NN_IMPLEMENTATIONS_MAX && dnnl_primitive_desc_iterator_next(iterator) == dnnl_success);
    dnnl_primitive_desc_iterator_destroy(iterator);
    return count;
}

#endif

int norm_list(dnnl_engine_t engine, nn_md values, bool relu, const_dnnl_primitive_desc_t forward,
              dnnl_primitive_desc_t *pds_out)
{
    dnnl_primitive_attr_t attr = NULL;
    int count = 0;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success)
        return 0;
    if (dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success)
        count = list(engine, values, relu, forward, attr, pds_out);
    dnnl_primitive_attr_destroy(attr);
    return count;
}
