/* Fuzz target of TensorFlow Datasets' descriptions: any bytes as dataset_info.json and as features.json. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/manifest.h"
#include "tests/fuzz/fuzz.h"

static const char info[] =
    "{\"name\":\"d\",\"fileFormat\":\"tfrecord\",\"splits\":[{\"name\":\"train\",\"shardLengths\":[\"5\",4],"
    "\"filepathTemplate\":\"{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_INDEX}-of-{NUM_SHARDS}\"},{\"name\":\"t\","
    "\"numShards\":\"1\",\"statistics\":{\"numExamples\":\"3\"}}],\"supervisedKeys\":{\"tuple\":{\"items\":["
    "{\"featureKey\":\"a\"},{\"featureKey\":\"b\"}]}}}";
static const char features[] =
    "{\"featuresDict\":{\"features\":{\"a\":{\"image\":{}},\"b\":{\"classLabel\":{\"numClasses\":\"3\"}}}}}";

const struct fuzz_seed fuzz_seeds[] = {
    { info, sizeof(info) - 1 },
    { features, sizeof(features) - 1 },
    { NULL, 0 },
};

static void check(const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_shard *const shard = &manifest->shards[i];
        if (strchr(shard->file, '/') != NULL || shard->file[0] == '.' || shard->split >= manifest->split_count ||
            manifest_find(manifest, shard->file) == NULL)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct manifest manifest = { 0 };
    char problem[64] = "";
    const int rc = dataset_info_read(&manifest, (const char *)data, bytes, problem, sizeof(problem));
    if (rc < 0 && (rc != -EBADMSG || problem[0] == '\0'))
        abort();
    (void)dataset_features_read(&manifest, (const char *)data, bytes, problem, sizeof(problem));
    check(&manifest);
    manifest_release(&manifest);
    return 0;
}
