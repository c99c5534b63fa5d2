/* The changes of a training image's pixels, after it was cropped and scaled. Called by decoders for every record. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "loader/augment/augment.h"
#include "loader/augment/draw.h"
#include "loader/augment/policy.h"
#include "loader/images/image.h"
#include "loader/images/scratch.h"

size_t augment_room_bytes(const struct augment *augment, const struct image_shape *shape)
{
    size_t bytes;
    const bool needs_room = augment != NULL && (augment->policy != POLICY_NONE || augment->flips_vertically ||
                                                augment->rotation > 0);
    return !needs_room ? 0 : image_shape_bytes(shape, &bytes) ? bytes : SIZE_MAX;
}

/* The operations of an image, in order. */
struct operation_list {
    uint32_t count;
    struct operation operations[2 + POLICY_OPERATIONS_MAX];
};

static struct operation_list list_operations(const struct augment *augment, const struct image_request *request)
{
    const struct draw draw = draw_operation(augment, request, DRAW_TURN);
    struct operation_list list = { .count = 0 };
    if (augment->flips_vertically && draw.word[0] >> 31 != 0)
        list.operations[list.count++] = (struct operation){ OPERATION_VERTICAL_FLIP, 0 };
    if (augment->rotation > 0)
        list.operations[list.count++] = (struct operation){
            OPERATION_ROTATE, draw_uniform(draw.word[1], -augment->rotation, augment->rotation) };
    list.count += policy_draw(augment, request, list.operations + list.count);
    return list;
}

/* ---- random erasing, as torchvision's RandomErasing (Zhong et al. 2017) ---- */

#define ERASE_TRIES 10u
#define ERASE_AREA_MIN 0.02
#define ERASE_AREA_MAX 0.33
#define ERASE_ASPECT_MIN 0.3
#define ERASE_ASPECT_MAX 3.3

struct box { uint32_t top, left, height, width; };

/* Draw a box of uniform area, uniform logarithm of height / width and uniform position; only one that is smaller than
 * the image on both sides counts. */
static bool draw_box(const struct augment *augment, const struct image_request *request, uint32_t try,
                     struct box *box_out)
{
    const struct image_shape *const shape = &request->shape;
    const struct draw draw = draw_operation(augment, request, DRAW_BOX + try);
    const double share = draw_uniform(draw.word[0], ERASE_AREA_MIN, ERASE_AREA_MAX);
    const double area = (double)shape->height * shape->width * share;
    const double aspect = exp(draw_uniform(draw.word[1], log(ERASE_ASPECT_MIN), log(ERASE_ASPECT_MAX)));
    const double height = nearbyint(sqrt(area * aspect)), width = nearbyint(sqrt(area / aspect));
    if (height >= shape->height || width >= shape->width)
        return false;
    *box_out = (struct box){ .height = (uint32_t)height, .width = (uint32_t)width };
    box_out->top = draw_below(draw.word[2], shape->height - box_out->height + 1);
    box_out->left = draw_below(draw.word[3], shape->width - box_out->width + 1);
    return true;
}

static void fill_box(const struct augment *augment, const struct image_shape *shape, const struct box *box,
                     uint8_t *pixels)
{
    const size_t channels = shape->channels;
    for (uint32_t y = 0; y < box->height; y++) {
        uint8_t *const row = pixels + ((size_t)(box->top + y) * shape->width + box->left) * channels;
        for (size_t i = 0; i < box->width * channels; i++)
            row[i] = i % channels < AUGMENT_CHANNELS_MAX ? augment->erased[i % channels] : 0;
    }
}

static void erase(const struct augment *augment, const struct image_request *request, uint8_t *pixels)
{
    struct box box;
    if (draw_uniform(draw_operation(augment, request, DRAW_ERASE).word[0], 0, 1) >= augment->erase)
        return;
    for (uint32_t try = 0; try < ERASE_TRIES; try++) {
        if (!draw_box(augment, request, try, &box))
            continue;
        fill_box(augment, &request->shape, &box, pixels);
        return;
    }
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
    if (augment->erase > 0)
        erase(augment, request, pixels);
    return 0;
}
