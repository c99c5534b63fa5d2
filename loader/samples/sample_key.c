/* Features by name. Called while a data set is opened, and by whoever shows what is in shards; pure functions. */
#include "loader/samples/sample_key.h"

#include <errno.h>
#include <string.h>

const char *const sample_key_names[SAMPLE_KEY_COUNT][SAMPLE_KEY_NAMES] = {
    [SAMPLE_IMAGE] = { "image_raw", "image", "img_raw", "image/encoded" },
    [SAMPLE_LABEL] = { "image/class/label", "label" },
    [SAMPLE_HEIGHT] = { "height", "image/height", "image_height" },
    [SAMPLE_WIDTH] = { "width", "image/width", "image_width" },
    [SAMPLE_DEPTH] = { "depth", "image/channels", "channels", "image_depth", "image_channels" },
};

int sample_key_find(const char *const *names, const uint8_t *payload, size_t bytes, const char **name_out,
                    struct feature *feature_out, size_t *bad_offset_out)
{
    const char *found = NULL;
    for (size_t i = 0; names[i] != NULL && found == NULL; i++) {
        const size_t name_bytes = strlen(names[i]);
        const struct example_query query = { &names[i], &name_bytes, 1 };
        if (example_find(payload, bytes, &query, feature_out, bad_offset_out) < 0)
            return -EBADMSG;
        if (feature_out->kind != FEATURE_MISSING)
            found = names[i];
    }
    *name_out = found;
    return 0;
}
