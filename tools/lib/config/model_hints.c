/* Suggestions for misspelt models and tensors. Called by the main thread. */
#include "tools/lib/config/model_hints.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "stage/text/names.h"
#include "stage/text/program_folder.h"

/* ---- models ---- */

#define HINTS_MAX 4u
#define PART_MIN 3u             /* shorter texts are part of too many names */
#define FAMILY_BYTES 32u
#define DISTANCE_OF_FAMILY (SIZE_MAX - 1)

/* The best hints so far, sorted. */
struct hints {
    const char *name[HINTS_MAX];
    size_t distance[HINTS_MAX];
    uint32_t count;
};

/* Does the name contain the text? Texts shorter than PART_MIN do not count. */
static bool is_part(const char *text, const char *name)
{
    return strlen(text) >= PART_MIN && strcasestr(name, text) != NULL;
}

/* The distance between a model's name and the text; SIZE_MAX: too far. Names that contain the text are nearer than
 * others; names that only begin with the same letters (the same family) are far. */
static size_t distance_of(const char *written, const char *name)
{
    char family[FAMILY_BYTES] = "";
    struct nearest nearest = { .name = written };
    nearest_offer(&nearest, name, name);
    if (is_part(written, name))
        return strncasecmp(name, written, strlen(written)) == 0 ? 0 : 1;
    if (nearest.best != NULL)
        return nearest.distance;
    sscanf(written, "%31[A-Za-z]", family);
    return is_part(family, name) ? DISTANCE_OF_FAMILY : SIZE_MAX;
}

/* Does the text differ from another name in only one letter? */
static bool is_slip(const char *written, const char *alias)
{
    struct nearest nearest = { .name = written };
    nearest_offer(&nearest, alias, alias);
    return nearest.best != NULL && nearest.distance <= 1;
}

static void offer_model(struct hints *hints, const char *name, size_t distance)
{
    uint32_t place = hints->count;
    while (place > 0 && distance < hints->distance[place - 1])
        place--;
    if (place == HINTS_MAX)
        return;
    const uint32_t last = hints->count < HINTS_MAX ? hints->count++ : HINTS_MAX - 1;
    for (uint32_t i = last; i > place; i--) {
        hints->name[i] = hints->name[i - 1];
        hints->distance[i] = hints->distance[i - 1];
    }
    hints->name[place] = name;
    hints->distance[place] = distance;
}

/* Suggest the family only if no name is near. */
static void drop_family(struct hints *hints)
{
    while (hints->distance[0] < DISTANCE_OF_FAMILY && hints->distance[hints->count - 1] == DISTANCE_OF_FAMILY)
        hints->count--;
}

static void find_hints(struct hints *hints, const char *written)
{
    *hints = (struct hints){ .count = 0 };
    for (const struct model *model = model_table; model->name != NULL; model++) {
        const size_t distance = distance_of(written, model->name);
        if (model->alias != NULL && is_slip(written, model->alias))
            offer_model(hints, model->alias, 0);
        else if (distance != SIZE_MAX)
            offer_model(hints, model->name, distance);
    }
    if (hints->count > 0)
        drop_family(hints);
}

void model_hint(const char *name, char text[MODEL_HINT_SIZE])
{
    struct hints hints;
    find_hints(&hints, name);
    size_t used = (size_t)snprintf(text, MODEL_HINT_SIZE, "there is no model '%.80s' (", name);
    if (hints.count == 0)
        snprintf(text + used, MODEL_HINT_SIZE - used, "%spipetrain --describe lists them)", program_folder());
    for (uint32_t i = 0; i < hints.count; i++)
        used += (size_t)snprintf(text + used, MODEL_HINT_SIZE - used, "%s'%s'%s",
                                 i == 0 ? "did you mean " : i + 1 < hints.count ? ", " : " or ", hints.name[i],
                                 i + 1 < hints.count ? "" : "?)");
}

/* ---- tensors ---- */

#define FRONTS_SHOWN 6u
#define FRONT_BYTES sizeof(((struct parameter *)0)->name)

/* The nearest name so far; `best` has space for a prefix and ".*". */
struct tensor_search { struct nearest nearest; char best[FRONT_BYTES + 4]; };

static void offer_tensor(struct tensor_search *tensor_search, const char *candidate)
{
    const size_t distance = tensor_search->nearest.best != NULL ? tensor_search->nearest.distance : SIZE_MAX;
    nearest_offer(&tensor_search->nearest, candidate, tensor_search->best);
    if (tensor_search->nearest.best != NULL && tensor_search->nearest.distance < distance)
        snprintf(tensor_search->best, sizeof(tensor_search->best), "%s", candidate);
}

/* Compare with a name and with its prefixes up to each dot. */
static void offer_name(struct tensor_search *tensor_search, const char *name)
{
    char front[sizeof(tensor_search->best)];
    offer_tensor(tensor_search, name);
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        snprintf(front, sizeof(front), "%.*s.*", (int)(dot - name), name);
        offer_tensor(tensor_search, front);
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
    struct tensor_search tensor_search = { .nearest = { .name = pattern } };
    for (uint32_t i = 0; i < net->parameter_count; i++)
        offer_name(&tensor_search, net->parameters[i].name);
    if (tensor_search.nearest.best != NULL)
        snprintf(text, TENSOR_HINT_SIZE, " (did you mean '%s'?)", tensor_search.best);
    else
        list_fronts(net, text);
}
