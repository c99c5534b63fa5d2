/* Names of layers. */
#include "compute/netfile/net_names.h"

#include <string.h>

#include "stage/text/names.h"

static const char *const kept_names[] = { "image", "before", "start", "classes" };
#define KEPT_NAMES (sizeof(kept_names) / sizeof(*kept_names))

void net_names_init(struct net_names *names)
{
    names->count = 1;
    names->of[NET_NAME_IMAGE] = (struct net_name){ .name = "image", .layer = NET_INPUT, .is_read = true };
}

uint32_t net_names_find(const struct net_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (strcmp(names->of[i].name, name) == 0)
            return i;
    return NET_NAMES_MAX;
}

const char *net_names_nearest(const struct net_names *names, const char *name)
{
    struct nearest nearest = { .name = name };
    for (uint32_t i = 0; i < names->count; i++)
        nearest_offer(&nearest, names->of[i].name, names->of[i].name);
    return nearest.best;
}

bool net_name_is_kept(const char *name)
{
    for (size_t i = 0; i < KEPT_NAMES; i++)
        if (strcmp(kept_names[i], name) == 0)
            return true;
    return false;
}
