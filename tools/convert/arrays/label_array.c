/* Labels from an array, all at once. Called by main while the npy converter prepares. */
#include "tools/convert/arrays/label_array.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CLASSES_MAX (1u << 24)  /* more are no classes but a mistake */

static int check_shape(const struct array *labels, uint64_t count, struct stop *stop)
{
    const struct npy *const npy = &labels->npy;

    if (npy->rank == 0 || npy->data_bytes / npy->item_bytes != npy->dims[0])
        return array_fail_shape(labels, stop, "is no array of labels, which are (N) or (N, 1), a class a number: if "
                                "each row is a label (one-hot), save array.argmax(1)");
    if (npy->kind == NPY_FLOAT)
        return array_fail(labels, stop, "labels are floating-point numbers: save array.astype('int64')");
    if (npy->dims[0] == count)
        return 0;
    stop_fail(stop, EXIT_CODE_DATA, "%s: has %" PRIu64 " labels for %" PRIu64 " images", labels->path, npy->dims[0],
              count);
    return -EBADMSG;
}

static int take_labels(const struct array *labels, uint64_t count, const uint8_t *numbers, uint32_t *taken,
                       uint32_t *classes_out, struct stop *stop)
{
    uint32_t classes = 0;

    for (uint64_t i = 0; i < count; i++) {
        int64_t label = INT64_MAX;
        char text[96];
        const bool is_known = npy_integer(&labels->npy, numbers + i * labels->npy.item_bytes, &label);
        if (label < 0 || label >= CLASSES_MAX) {
            snprintf(text, sizeof(text), "label %" PRIi64 "%s of image %" PRIu64 " is no class", label,
                     is_known ? "" : " or more", i);
            return array_fail(labels, stop, text);
        }
        taken[i] = (uint32_t)label;
        classes = taken[i] >= classes ? taken[i] + 1 : classes;
    }
    *classes_out = classes;
    return 0;
}

int label_array_read(const struct array *labels, uint64_t count, uint32_t **labels_out, uint32_t *classes_out,
                     struct stop *stop)
{
    int rc = check_shape(labels, count, stop);
    if (rc < 0)
        return rc;
    uint8_t *const numbers = malloc(labels->npy.data_bytes + 1);
    uint32_t *const taken = calloc(count + 1, sizeof(*taken));
    if (numbers != NULL && taken != NULL) {
        rc = array_read(labels, 0, numbers, labels->npy.data_bytes, stop);
    } else {
        stop_fail(stop, EXIT_CODE_MEMORY, "%s: no memory for %" PRIu64 " labels", labels->path, count);
        rc = -ENOMEM;
    }
    if (rc == 0)
        rc = take_labels(labels, count, numbers, taken, classes_out, stop);
    free(numbers);
    if (rc < 0)
        free(taken);
    else
        *labels_out = taken;
    return rc;
}
