/* Memory that grows. Called by decoders, which soon find it large enough. */
#include "loader/images/scratch.h"

#include <stdlib.h>

void *scratch_need(struct scratch *scratch, size_t bytes)
{
    if (bytes <= scratch->bytes)
        return scratch->memory;
    scratch_release(scratch);
    scratch->memory = malloc(bytes);
    scratch->bytes = scratch->memory != NULL ? bytes : 0;
    return scratch->memory;
}

void scratch_release(struct scratch *scratch)
{
    free(scratch->memory);
    *scratch = (struct scratch){ NULL, 0 };
}
