/* Names of labels. Called by main. */
#include "tools/shards/label_names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/convert/file_bytes.h"

struct manifest label_names_read(const char *shard_path)
{
    struct manifest manifest = { 0 };
    char path[PATH_MAX], problem[256];
    const char *const slash = strrchr(shard_path, '/');
    uint8_t *text;
    size_t bytes;
    const int wanted = snprintf(path, sizeof(path), "%.*s" MANIFEST_FILE,
                                slash != NULL ? (int)(slash + 1 - shard_path) : 0, shard_path);
    if (wanted >= (int)sizeof(path) || file_bytes_read(path, &text, &bytes) < 0)
        return manifest;
    if (bytes <= MANIFEST_BYTES_MAX)
        (void)manifest_read(&manifest, (const char *)text, bytes, problem, sizeof(problem));
    free(text);
    return manifest;
}

const char *label_name(const struct manifest *manifest, int64_t label)
{
    return label >= 0 && (uint64_t)label < manifest->class_count ? manifest->class_names[label] : NULL;
}
