/* Applies operations of automatic augmentation to images, for operations.py, which compares the results with those of
 * torchvision and Pillow. Reads from standard input until its end: a struct head and the pixels; writes the pixels. */
#include <stdio.h>
#include <stdlib.h>

#include "loader/augment/operations.h"
#include "loader/images/image.h"

struct head { double magnitude; uint32_t kind, height, width, channels; };

static int apply_next(const struct head *head)
{
    const struct image_shape shape = { head->height, head->width, head->channels };
    const struct operation operation = { (enum operation_kind)head->kind, head->magnitude };
    size_t bytes;
    if (head->kind >= OPERATION_COUNT || !image_shape_bytes(&shape, &bytes))
        return 2;
    uint8_t *const pixels = malloc(2 * bytes);
    if (pixels == NULL || fread(pixels, 1, bytes, stdin) != bytes) {
        free(pixels);
        return 2;
    }
    operation_apply(&operation, &shape, pixels + bytes, pixels);
    const size_t written = fwrite(pixels, 1, bytes, stdout);
    free(pixels);
    return written == bytes ? 0 : 2;
}

int main(void)
{
    struct head head;
    int rc = 0;
    while (rc == 0 && fread(&head, sizeof(head), 1, stdin) == 1)
        rc = apply_next(&head);
    return rc;
}
