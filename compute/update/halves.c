/* Called by the modes of synchronisation; runs at the speed of the memory. */
#include "compute/update/halves.h"

size_t halves_bytes(const struct tower *tower)
{
    return tower_spec(tower)->has_bf16_grads ? tower_arena(tower)->updated * sizeof(uint16_t) : 0;
}

int halves_open(uint16_t **halves_out, const struct tower *tower)
{
    struct device *const device = tower_spec(tower)->device;
    void *memory = NULL;
    const size_t bytes = halves_bytes(tower);
    const int rc = bytes > 0 ? device->ops->alloc(device, bytes, &memory) : 0;
    if (rc == 0)
        *halves_out = memory;
    return rc;
}

int tower_grads_to_bf16(struct tower *tower, size_t offset, size_t count)
{
    uint16_t *const halves = tower_bf16_grads(tower);
    return halves == NULL ? 0 : tower_spec(tower)->backend->to_bf16(tower_backend(tower), tower_applied(tower) + offset,
                                                                    halves + offset, count);
}

int tower_grads_from_bf16(struct tower *tower, size_t offset, size_t count)
{
    const uint16_t *const halves = tower_bf16_grads(tower);
    return halves == NULL ? 0 : tower_spec(tower)->backend->from_bf16(tower_backend(tower), halves + offset,
                                                                      tower_applied(tower) + offset, count);
}
