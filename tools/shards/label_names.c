/* Names of labels. Called by main. */
#include "tools/shards/label_names.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/file/file.h"

static const char *const lists[] = { "labels.txt", "label.labels.txt" };

/* Errors that are no fault of the file, so that going on without it would be another run than the one that reads it. */
static bool is_fatal(int rc)
{
    return rc == -ENOMEM || rc == -EIO || rc == -EMFILE || rc == -ENFILE;
}

/* The file of this name beside a shard, *text_out NULL where none can be read: to be freed. 0, or an error as above. */
static int read_beside(const char *shard_path, const char *file, char **text_out, size_t *bytes_out)
{
    char path[PATH_MAX];
    const char *const slash = strrchr(shard_path, '/');
    const int folder_bytes = slash != NULL ? (int)(slash + 1 - shard_path) : 0;
    const int wanted = snprintf(path, sizeof(path), "%.*s%s", folder_bytes, shard_path, file);
    uint8_t *text = NULL;
    const int rc = wanted < (int)sizeof(path) ? file_load(path, SIZE_MAX, &text, bytes_out) : 0;
    *text_out = rc == 0 ? (char *)text : NULL;
    return is_fatal(rc) ? rc : 0;
}

static int read_manifest(struct manifest *manifest, const char *shard_path)
{
    char problem[256], *text;
    size_t bytes;
    int rc = read_beside(shard_path, MANIFEST_FILE, &text, &bytes);
    if (text != NULL && bytes <= MANIFEST_BYTES_MAX)
        rc = manifest_read(manifest, text, bytes, problem, sizeof(problem));
    free(text);
    return is_fatal(rc) ? rc : 0;
}

static int read_list(struct class_names *listed, const char *shard_path, const char *file)
{
    char problem[256], *text;
    size_t bytes;
    int rc = read_beside(shard_path, file, &text, &bytes);
    if (text != NULL && bytes <= CLASS_NAMES_BYTES_MAX)
        rc = class_names_read(listed, text, bytes, problem, sizeof(problem));
    free(text);
    return is_fatal(rc) ? rc : 0;
}

int label_names_read(struct label_names *names_out, const char *shard_path)
{
    *names_out = (struct label_names){ .listed.count = 0 };
    int rc = read_manifest(&names_out->manifest, shard_path);
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
