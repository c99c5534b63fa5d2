/* Hints for names of models. */
#include "tools/config/model_hint.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "stage/text/names.h"

#define HINTS_MAX 4u
#define PART_MIN 3u             /* what is shorter is a part of too much */
#define FAMILY_BYTES 32u
#define DISTANCE_OF_FAMILY (SIZE_MAX - 1)

/* The best so far, the best first. */
struct hints {
    const char *name[HINTS_MAX];
    size_t distance[HINTS_MAX];
    uint32_t count;
};

/* Is the text a part of the name, and long enough to mean it? */
static bool is_part(const char *text, const char *name)
{
    return strlen(text) >= PART_MIN && strcasestr(name, text) != NULL;
}

/* How far a model's name is from what was written; SIZE_MAX when nobody would mix them up. A name of which it is a part
 * is nearer than others; one of the same family, as its letters in front say, is far. */
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

/* Is it another name but for one letter? */
static bool is_slip(const char *written, const char *alias)
{
    struct nearest nearest = { .name = written };
    nearest_offer(&nearest, alias, alias);
    return nearest.best != NULL && nearest.distance <= 1;
}

static void offer(struct hints *hints, const char *name, size_t distance)
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

/* Of the family there is something to say only where nothing is near. */
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
            offer(hints, model->alias, 0);
        else if (distance != SIZE_MAX)
            offer(hints, model->name, distance);
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
        snprintf(text + used, MODEL_HINT_SIZE - used, "pipetrain --describe lists them)");
    for (uint32_t i = 0; i < hints.count; i++)
        used += (size_t)snprintf(text + used, MODEL_HINT_SIZE - used, "%s'%s'%s",
                                 i == 0 ? "did you mean " : i + 1 < hints.count ? ", " : " or ", hints.name[i],
                                 i + 1 < hints.count ? "" : "?)");
}
