/* Fuzz target of lists of class names: any bytes as a list. Every name that is read is found again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/class_names.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    SEED("roses\ntulips\r\n\na daisy\n"),
    SEED("0:roses\n2:tulips\n1:a:b\n"),
    SEED("1:a\n1:b\n"),
    { NULL, 0 },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct class_names names;
    char problem[64] = "";
    const int rc = class_names_read(&names, (const char *)data, bytes, problem, sizeof(problem));
    if (rc < 0) {
        if (rc == -EBADMSG && problem[0] == '\0')
            abort();
        return 0;
    }
    for (uint32_t i = 0; i < names.count; i++) {
        const size_t name_bytes = strlen(names.names[i]);
        uint32_t found = names.count;
        const int find_rc = class_names_find(&names, (const uint8_t *)names.names[i], name_bytes, &found);
        if (find_rc == 0 ? found != i : find_rc != (name_bytes == 0 ? -ENOENT : -ENOTUNIQ))
            abort();
    }
    class_names_release(&names);
    return 0;
}
