/* Finding how raw pixels are stored. Called while a data set is opened, and by the threads of a scan; pure
 * functions. */
#include "loader/images/stored_pixels.h"

#include <string.h>

#include "formats/example.h"
#include "loader/images/raw.h"
#include "loader/images/tensor_image.h"

#define CIFAR_KEY "image"
#define CIFAR_BYTES 3072u

int stored_pixels_find(const struct stored_image *image, const struct image_shape *wanted, enum pixel_layout configured,
                       struct stored_pixels *stored_out, char *problem_out, size_t problem_size)
{
    struct stored_pixels stored = { .kind = NUMBER_KIND_COUNT, .layout = configured };
    int rc = 0;
    if (image->list != NULL)
        stored.kind = image->list->kind == FEATURE_FLOATS ? NUMBER_FLOAT32 : NUMBER_INTEGERS;
    else if ((stored.is_tensor = tensor_image_is(image->bytes, image->byte_count)))
        rc = tensor_image_find(image, configured, &stored.kind, &stored.layout, problem_out, problem_size);
    else
        stored.number_bytes = raw_number_bytes(image, wanted);
    *stored_out = stored;
    return rc;
}

int stored_pixels_unwrap(const struct stored_pixels *stored, struct stored_image *image, char *problem_out,
                         size_t problem_size)
{
    return stored->is_tensor ? tensor_image_read(image, stored->kind, stored->layout, problem_out, problem_size) : 0;
}

void stored_pixels_begin_survey(const struct stored_pixels *stored, struct pixel_survey *survey)
{
    if (stored->kind != NUMBER_KIND_COUNT)
        pixel_survey_begin_type(survey, stored->kind);
    else
        pixel_survey_begin(survey, stored->number_bytes);
}

struct image_size stored_size(const char *key, const struct feature *feature)
{
    const bool is_said = feature->kind == FEATURE_INT64S && feature->value_count > 0;
    return (struct image_size){ key, is_said ? feature->int64 : IMAGE_SIZE_UNSAID };
}

bool stored_pixels_are_cifar(const char *key, size_t count)
{
    return count == CIFAR_BYTES && strcmp(key, CIFAR_KEY) == 0;
}
