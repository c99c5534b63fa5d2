/* What all reductions share. */
#include "sync/reduce.h"

void reduce_cancel(void *reduce)
{
    struct reduce *const base = reduce;
    base->ops->cancel(base);
}
