/* The changes of a training image's pixels, after it was cropped and scaled. Called by decoders for every record. */
#include <errno.h>

#include "loader/augment/augment.h"
#include "loader/augment/policy.h"
#include "loader/images/image.h"
#include "loader/images/scratch.h"

size_t augment_room_bytes(const struct augment *augment, const struct image_shape *shape)
{
    size_t bytes;
    const bool needs_room = augment != NULL && augment->policy != POLICY_NONE;
    return !needs_room ? 0 : image_shape_bytes(shape, &bytes) ? bytes : SIZE_MAX;
}

/* The operations of an image, in order. */
struct operation_list {
    uint32_t count;
    struct operation operations[POLICY_OPERATIONS_MAX];
};

static struct operation_list list_operations(const struct augment *augment, const struct image_request *request)
{
    struct operation_list list;
    list.count = policy_draw(augment, request, list.operations);
    return list;
}

int augment_apply(const struct augment *augment, const struct image_request *request, struct scratch *scratch,
                  uint8_t *pixels)
{
    if (augment == NULL || request->phase != PHASE_TRAIN)
        return 0;
    const size_t room_bytes = augment_room_bytes(augment, &request->shape);
    uint8_t *const room = room_bytes > 0 ? scratch_need(scratch, room_bytes) : NULL;
    if (room_bytes > 0 && room == NULL)
        return -ENOMEM;
    const struct operation_list list = list_operations(augment, request);
    for (uint32_t i = 0; i < list.count; i++)
        operation_apply(&list.operations[i], &request->shape, room, pixels);
    augment_colour(augment, request, pixels);
    return 0;
}
