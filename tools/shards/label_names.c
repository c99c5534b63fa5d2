/* Names of labels. Called by main. */
#include "tools/shards/label_names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/convert/file_bytes.h"

static const char *const lists[] = { "labels.txt", "label.labels.txt" };

/* The file of this name beside a shard, NULL where none can be read. To be freed. */
static char *read_beside(const char *shard_path, const char *file, size_t *bytes_out)
{
    char path[PATH_MAX];
    const char *const slash = strrchr(shard_path, '/');
    const int folder_bytes = slash != NULL ? (int)(slash + 1 - shard_path) : 0;
    const int wanted = snprintf(path, sizeof(path), "%.*s%s", folder_bytes, shard_path, file);
    uint8_t *text;
    if (wanted >= (int)sizeof(path) || file_bytes_read(path, &text, bytes_out) < 0)
        return NULL;
    return (char *)text;
}

static void read_manifest(struct manifest *manifest, const char *shard_path)
{
    char problem[256];
    size_t bytes;
    char *const text = read_beside(shard_path, MANIFEST_FILE, &bytes);
    if (text != NULL && bytes <= MANIFEST_BYTES_MAX)
        (void)manifest_read(manifest, text, bytes, problem, sizeof(problem));
    free(text);
}

static void read_list(struct class_names *listed, const char *shard_path, const char *file)
{
    char problem[256];
    size_t bytes;
    char *const text = read_beside(shard_path, file, &bytes);
    if (text != NULL && bytes <= CLASS_NAMES_BYTES_MAX)
        (void)class_names_read(listed, text, bytes, problem, sizeof(problem));
    free(text);
}

void label_names_read(struct label_names *names_out, const char *shard_path)
{
    *names_out = (struct label_names){ .listed.count = 0 };
    read_manifest(&names_out->manifest, shard_path);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (names_out->manifest.class_count == 0 && names_out->listed.count == 0)
            read_list(&names_out->listed, shard_path, lists[i]);
}

const char *label_names_find(const struct label_names *names, int64_t label)
{
    const uint64_t class = (uint64_t)label;
    const char *const name = class < names->manifest.class_count ? names->manifest.class_names[class]
                             : class < names->listed.count       ? names->listed.names[class]
                                                                 : "";
    return *name != '\0' ? name : NULL;
}

void label_names_release(struct label_names *names)
{
    manifest_release(&names->manifest);
    class_names_release(&names->listed);
}
