/* Hints for patterns of tensors' names. */
#include "tools/config/tensor_hint.h"

#include <stdio.h>
#include <string.h>

#include "stage/text/names.h"

#define FRONTS_SHOWN 6u
#define FRONT_BYTES sizeof(((struct parameter *)0)->name)

/* The nearest so far, with room for the front of a name and ".*". */
struct search { struct nearest nearest; char best[FRONT_BYTES + 4]; };

static void offer(struct search *search, const char *candidate)
{
    const size_t distance = search->nearest.best != NULL ? search->nearest.distance : SIZE_MAX;
    nearest_offer(&search->nearest, candidate, search->best);
    if (search->nearest.best != NULL && search->nearest.distance < distance)
        snprintf(search->best, sizeof(search->best), "%s", candidate);
}

/* A name, and what it and its neighbours have in front of each dot. */
static void offer_name(struct search *search, const char *name)
{
    char front[sizeof(search->best)];
    offer(search, name);
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        snprintf(front, sizeof(front), "%.*s.*", (int)(dot - name), name);
        offer(search, front);
    }
}

static int front_bytes(const struct net *net, uint32_t parameter)
{
    return (int)strcspn(net->parameters[parameter].name, ".");
}

static const char *front_of(const struct net *net, uint32_t parameter, char front[FRONT_BYTES])
{
    snprintf(front, FRONT_BYTES, "%.*s", front_bytes(net, parameter), net->parameters[parameter].name);
    return front;
}

static bool is_new_front(const struct net *net, uint32_t parameter)
{
    const char *const name = net->parameters[parameter].name;
    const int bytes = front_bytes(net, parameter);
    for (uint32_t i = 0; i < parameter; i++)
        if (front_bytes(net, i) == bytes && strncmp(net->parameters[i].name, name, (size_t)bytes) == 0)
            return false;
    return true;
}

static void list_fronts(const struct net *net, char text[TENSOR_HINT_SIZE])
{
    size_t used = (size_t)snprintf(text, TENSOR_HINT_SIZE, " (they begin with ");
    uint32_t fronts = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (is_new_front(net, i) && fronts++ < FRONTS_SHOWN)
            used += (size_t)snprintf(text + used, TENSOR_HINT_SIZE - used, "%s%.24s", fronts > 1 ? ", " : "",
                                     front_of(net, i, (char[FRONT_BYTES]){ "" }));
    if (fronts > FRONTS_SHOWN)
        used += (size_t)snprintf(text + used, TENSOR_HINT_SIZE - used, ", ..., %.24s",
                                 front_of(net, net->parameter_count - 1, (char[FRONT_BYTES]){ "" }));
    snprintf(text + used, TENSOR_HINT_SIZE - used, ")");
}

void tensor_hint(const struct net *net, const char *pattern, char text[TENSOR_HINT_SIZE])
{
    struct search search = { .nearest = { .name = pattern } };
    for (uint32_t i = 0; i < net->parameter_count; i++)
        offer_name(&search, net->parameters[i].name);
    if (search.nearest.best != NULL)
        snprintf(text, TENSOR_HINT_SIZE, " (did you mean '%s'?)", search.best);
    else
        list_fronts(net, text);
}
