/* Fuzz target of manifests: any bytes as dataset.json, and as dataset_info.json and features.json of TensorFlow
 * Datasets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/manifest.h"
#include "tests/fuzz/fuzz.h"

static const char whole[] =
    "{\"name\": \"x\", \"splits\": {\"train\": {\"records\": 9, \"shards\": [{\"file\": \"a\", \"records\": 4,"
    " \"bytes\": 400}, {\"file\": \"b\\u001b\", \"records\": 5}]}, \"test\": {\"shards\": []}}}";
static const char deep[] = "{\"splits\": {\"a\": [[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]}}";
static const char info[] =
    "{\"name\":\"d\",\"fileFormat\":\"tfrecord\",\"splits\":[{\"name\":\"train\",\"shardLengths\":[\"5\",4],"
    "\"filepathTemplate\":\"{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_INDEX}-of-{NUM_SHARDS}\"},{\"name\":\"t\","
    "\"numShards\":\"1\",\"statistics\":{\"numExamples\":\"3\"}}],\"supervisedKeys\":{\"tuple\":{\"items\":["
    "{\"featureKey\":\"a\"},{\"featureKey\":\"b\"}]}}}";
static const char features[] =
    "{\"featuresDict\":{\"features\":{\"a\":{\"image\":{}},\"b\":{\"classLabel\":{\"numClasses\":\"3\"}}}}}";

const struct fuzz_seed fuzz_seeds[] = {
    { whole, sizeof(whole) - 1 },
    { deep, sizeof(deep) - 1 },
    { info, sizeof(info) - 1 },
    { features, sizeof(features) - 1 },
    { NULL, 0 },
};

static void check_manifest(const uint8_t *data, size_t bytes)
{
    struct manifest manifest;
    char problem[64] = "";
    const int rc = manifest_read(&manifest, (const char *)data, bytes, problem, sizeof(problem));
    require(rc == 0 || (rc == -EBADMSG && problem[0] != '\0'));
    if (rc != 0)
        return;
    for (size_t i = 0; i < manifest.count; i++) {
        const struct manifest_shard *const found = manifest_find(&manifest, manifest.shards[i].file);
        require(found != NULL && strcmp(found->file, manifest.shards[i].file) == 0);
    }
    manifest_release(&manifest);
}

static void check_dataset_info(const uint8_t *data, size_t bytes)
{
    struct manifest manifest = { 0 };
    char problem[64] = "";
    const int rc = dataset_info_read(&manifest, (const char *)data, bytes, problem, sizeof(problem));
    require(rc == 0 || (rc == -EBADMSG && problem[0] != '\0'));
    (void)dataset_features_read(&manifest, (const char *)data, bytes, problem, sizeof(problem));
    for (size_t i = 0; i < manifest.count; i++) {
        const struct manifest_shard *const shard = &manifest.shards[i];
        require(strchr(shard->file, '/') == NULL && shard->file[0] != '.' && shard->split < manifest.split_count);
        require(manifest_find(&manifest, shard->file) != NULL);
    }
    manifest_release(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    check_manifest(data, bytes);
    check_dataset_info(data, bytes);
    return 0;
}
