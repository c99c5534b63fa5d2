/* Names of labels. Called by the main thread. */
#include "tools/shards/label_names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/shard_list.h"
#include "stage/file/file.h"

static const char *const lists[] = { "labels.txt", "label.labels.txt" };

/* Errors that do not come from the file itself and may not occur the next time. */
static bool is_fatal(int rc)
{
    return rc == -ENOMEM || rc == -EIO || rc == -EMFILE || rc == -ENFILE;
}

/* Read a file next to a shard; *text_out, which the caller frees, is NULL if it cannot be read. 0 or a fatal error. */
static int read_next_to(const char *shard_path, const char *file, size_t bytes_max, char **text_out, size_t *bytes_out)
{
    char path[PATH_MAX];
    const int folder_bytes = (int)(shard_base_name(shard_path) - shard_path);
    const int wanted = snprintf(path, sizeof(path), "%.*s%s", folder_bytes, shard_path, file);
    *text_out = NULL;
    const int rc = wanted < (int)sizeof(path) ? file_load(path, bytes_max, text_out, bytes_out) : 0;
    return is_fatal(rc) ? rc : 0;
}

int manifest_read_beside(struct manifest *manifest, const char *shard_path)
{
    char problem[256], *text;
    size_t bytes;
    int rc = read_next_to(shard_path, MANIFEST_FILE, MANIFEST_BYTES_MAX, &text, &bytes);
    if (text != NULL)
        rc = manifest_read(manifest, text, bytes, problem, sizeof(problem));
    free(text);
    return is_fatal(rc) ? rc : 0;
}

static int read_list(struct class_names *listed, const char *shard_path, const char *file)
{
    char problem[256], *text;
    size_t bytes;
    int rc = read_next_to(shard_path, file, CLASS_NAMES_BYTES_MAX, &text, &bytes);
    if (text != NULL)
        rc = class_names_read(listed, text, bytes, problem, sizeof(problem));
    free(text);
    return is_fatal(rc) ? rc : 0;
}

int label_names_read(struct label_names *names_out, const char *shard_path)
{
    *names_out = (struct label_names){ .listed.count = 0 };
    int rc = manifest_read_beside(&names_out->manifest, shard_path);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rc == 0; i++)
        if (names_out->manifest.class_count == 0 && names_out->listed.count == 0)
            rc = read_list(&names_out->listed, shard_path, lists[i]);
    return rc;
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
