/* Fuzz target of the manifest: any bytes as dataset.json. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/manifest.h"
#include "tests/fuzz/fuzz.h"

static const char whole[] =
    "{\"name\": \"x\", \"splits\": {\"train\": {\"records\": 9, \"shards\": [{\"file\": \"a\", \"records\": 4,"
    " \"bytes\": 400}, {\"file\": \"b\\u001b\", \"records\": 5}]}, \"test\": {\"shards\": []}}}";
static const char deep[] = "{\"splits\": {\"a\": [[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]}}";

const struct fuzz_seed fuzz_seeds[] = {
    { whole, sizeof(whole) - 1 },
    { deep, sizeof(deep) - 1 },
    { NULL, 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct manifest manifest;
    char problem[64] = "";
    const int rc = manifest_read(&manifest, (const char *)data, bytes, problem, sizeof(problem));
    if (rc < 0) {
        if (rc != -EBADMSG || problem[0] == '\0')
            abort();
        return 0;
    }
    for (size_t i = 0; i < manifest.count; i++) {
        const struct manifest_shard *const found = manifest_find(&manifest, manifest.shards[i].file);
        if (found == NULL || strcmp(found->file, manifest.shards[i].file) != 0)
            abort();
    }
    manifest_release(&manifest);
    return 0;
}
