/* Functions of a plan for its layers: its values, its oneDNN memories, its parameters. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool value_is_relu(const struct plan *plan, uint32_t value)
{
    if (value == 0)
        return false;
    const struct group *const group = plan_group(&plan->base, plan_group(&plan->base, value - 1)->head);
    return group->tail_count > 0 && plan_layer(plan, group->tail[group->tail_count - 1])->kind == LAYER_RELU;
}

/* True for max pooling and dropout: a number that they pool or keep is above 0 exactly where the ReLU is active, so
 * their backward can apply its mask. */
bool value_is_masked_above(const struct plan *plan, uint32_t value)
{
    const uint32_t reader = fusion_only_reader(&plan->base.fusion, value);
    return reader != NET_INPUT && (plan_layer(plan, reader)->kind == LAYER_MAX_POOL ||
                                   plan_layer(plan, reader)->kind == LAYER_DROPOUT);
}

/* Does backward of such a layer not read the input? */
static bool is_done_forward(enum layer_kind kind)
{
    return kind == LAYER_CONCAT || kind == LAYER_ADD || kind == LAYER_PAD_CHANNELS || kind == LAYER_AVERAGE_POOL ||
           kind == LAYER_MAX_POOL;
}

bool value_is_done_forward(const struct plan *plan, uint32_t value)
{
    const struct fusion *const fusion = &plan->base.fusion;
    for (uint32_t i = 0; i < plan->base.net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(fusion, i) && k < fusion->groups[i].input_count; k++)
            if (fusion->groups[i].inputs[k] == value && !is_done_forward(plan_layer(plan, i)->kind))
                return false;
    return true;
}

void tensor_clear_padding(const struct tensor_layout *tensor, void *values, size_t samples)
{
    const size_t used = tensor->shape.channels % tensor->block, pixels = tensor_pixels(tensor);
    for (size_t n = 0; n < samples && used > 0; n++)
        for (size_t p = 0; p < pixels; p++) {
            const size_t at = n * tensor_count(tensor) + tensor_at(tensor, tensor->shape.channels, p);
            memset(value_at(tensor->type, values, at), 0, (tensor->block - used) * value_size(tensor->type));
        }
}

/* ---- buffers and memories ---- */

int plan_memory(struct plan *plan, nn_md md, struct place place, dnnl_memory_t *memory_out)
{
    if (plan->memory_count == plan->memory_room) {
        const uint32_t room = plan->memory_room * 2 + 32;
        struct plan_memory *const memories = realloc(plan->memories, room * sizeof(*memories));
        if (memories == NULL)
            return -ENOMEM;
        plan->memories = memories;
        plan->memory_room = room;
    }
    struct plan_memory *const memory = &plan->memories[plan->memory_count];
    memory->place = place;
    const int rc = nn_memory_create(&memory->memory, md, plan_backend(plan)->engine, DNNL_MEMORY_NONE);
    if (rc != 0)
        return rc;
    plan->memory_count++;
    *memory_out = memory->memory;
    return 0;
}

static float *parameter_at(const struct plan *plan, uint32_t parameter, float *trained, float *statistics)
{
    const struct backend *const backend = plan_backend(plan);
    const struct arena *const arena = arenas_of(backend->arenas, plan->base.net, parameter);
    return (arena == &backend->arenas->trained ? trained : statistics) + arena->ranges[parameter].offset;
}

float *plan_weights(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const struct backend_memory *const memory = &plan_backend(plan)->memory;
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    return parameter != NET_NO_PARAMETER ? parameter_at(plan, parameter, memory->weights, memory->statistics) : NULL;
}

float *plan_weight_gradients(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    float *const gradients = plan_backend(plan)->memory.gradients;
    return parameter != NET_NO_PARAMETER ? parameter_at(plan, parameter, gradients, NULL) : NULL;
}

nn_md plan_stored(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    return parameter != NET_NO_PARAMETER ? plan_backend(plan)->stored[parameter] : NULL;
}

static void *resolve_place(const struct plan *plan, struct place place)
{
    const struct backend_memory *const memory = &plan_backend(plan)->memory;
    if (place.kind == PLACE_BUFFER)
        return (char *)plan_data(plan, place.index) + place.offset;
    return parameter_at(plan, place.index, place.kind == PLACE_WEIGHTS ? memory->weights : memory->gradients, NULL);
}

int plan_bind_memories(struct plan *plan)
{
    char *const block = plan_block(&plan->base);
    for (uint32_t i = 0; i < plan->memory_count; i++) {
        const struct plan_memory *const memory = &plan->memories[i];
        const int rc = NN_CHECK(dnnl_memory_set_data_handle(memory->memory, resolve_place(plan, memory->place)));
        if (rc != 0)
            return rc;
    }
    plan->bound = block;
    plan->base.poisoned = plan_backend(plan)->spec.poison ? block : NULL;
    return 0;
}
