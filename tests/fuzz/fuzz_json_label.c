/* Fuzz target of reading a label from JSON: a label is a text that fits, the member found once is found by name, too,
 * and what is refused says why. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "formats/json_label.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("{\"label\": 3, \"width\": [1, 2.5e300]}"),
    SEED("{\"class\": \"cat\", \"category_id\": 7}"),
    SEED("{\"label\": {\"a\": null}}"),
    SEED("\xef\xbb\xbf\"a\\u0000b\""),
    SEED("{\"cls\": 1.0}"),
    { NULL, 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char member[JSON_MEMBER_BYTES] = "", label[JSON_LABEL_BYTES], again[JSON_LABEL_BYTES], problem[256] = "";
    const int rc = json_label_read((const char *)data, bytes, member, label, problem, sizeof(problem));

    require(rc == 0 || rc == -ENODATA || rc == -EBADMSG || rc == -EINVAL);
    require((rc != -EBADMSG && rc != -EINVAL) || (problem[0] != '\0' && strlen(problem) < sizeof(problem)));
    if (rc < 0)
        return 0;
    require(strnlen(label, sizeof(label)) < sizeof(label) && strnlen(member, sizeof(member)) < sizeof(member));
    require(json_label_read((const char *)data, bytes, member, again, problem, sizeof(problem)) == 0);
    require(strcmp(label, again) == 0);
    return 0;
}
