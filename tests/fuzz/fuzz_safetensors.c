/* Fuzz target: any bytes as the header of a safetensors file. What is read lies inside the file, and floats are as many
 * as their shape says. */
#include <errno.h>
#include <string.h>

#include "formats/safetensors.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }
#define DATA_BYTES 4096u

const struct fuzz_seed fuzz_seeds[] = {
    SEED("{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3,1,4],"
         "\"data_offsets\":[0,96]},\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[96,104]}}   "),
    SEED("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,0]}}"),
    SEED("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[8,4]},\"a\":[]}"),
    { NULL, 0 },
};

static void check_tensor(const struct safetensors_tensor *tensor)
{
    uint64_t count = 1;
    require(tensor->offset <= DATA_BYTES && tensor->bytes <= DATA_BYTES - tensor->offset);
    require(tensor->rank <= SAFETENSORS_RANK_MAX && strlen(tensor->dtype) < DATA_BYTES * 4);
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->dims[i];
    require(strcmp(tensor->dtype, "F32") != 0 || count * sizeof(float) == tensor->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct safetensors_index index = { .count = 0 };
    char problem[128] = "";
    const int rc = safetensors_index_read(&index, (const char *)data, bytes, DATA_BYTES, problem, sizeof(problem));
    require(rc == 0 || (rc == -EBADMSG && *problem != '\0'));
    for (size_t i = 0; i < index.count; i++)
        check_tensor(&index.tensors[i]);
    safetensors_index_release(&index);
    return 0;
}
