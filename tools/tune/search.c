/* First threads, where depth is no matter; then as little depth as will do. */
#include "tools/tune/search.h"

#include <errno.h>
#include <math.h>

#define STEPS 300u              /* that a prediction is made of */
#define DEEP_RING 16u           /* what has no effect any more where the feed is fast enough on average */
#define DEEP_SLOTS 4u
#define SHALLOW 0.005           /* of images/s that less depth may cost */
#define HURRY 0.15              /* measured again, steps are shorter or longer by about so much */

struct search {
    const struct feed_model *model;
    const struct search_space *space;
    struct search_result *result;
    struct found threads[SEARCH_FOUND_MAX];     /* the best of their kind at great depth, the best first */
    uint32_t count;
};

static const uint32_t depths[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, SEARCH_DEPTH_MAX };
static const uint32_t slot_depths[] = { 1, 2, 3, 4, 6 };
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

bool search_is_same(const struct feed_setting *a, const struct feed_setting *b)
{
    return a->readers == b->readers && a->decoders == b->decoders && a->threads == b->threads && a->ring == b->ring &&
           a->slots == b->slots;
}

static size_t more(uint32_t now, uint32_t wanted, size_t bytes)
{
    return wanted <= now ? 0 : bytes <= SIZE_MAX / wanted ? (wanted - now) * bytes : SIZE_MAX;
}

size_t search_more_bytes(const struct search_space *space, const struct feed_setting *setting)
{
    const size_t ring = more(space->now.ring, setting->ring, space->ring_batch_bytes);
    const size_t slots = more(space->now.slots, setting->slots, space->slot_bytes);
    return ring < SIZE_MAX - slots ? ring + slots : SIZE_MAX;
}

static int predict(struct search *search, const struct feed_setting *setting, struct found *found_out)
{
    found_out->setting = *setting;
    search->result->predicted++;
    return feed_predict(search->model, setting, STEPS, &found_out->prediction);
}

/* Some more than the last one: every number up to 8, then steps of an eighth or more. */
static uint32_t next_count(uint32_t count, uint32_t most)
{
    const uint32_t next = count + 1 + count / 8;
    return count == most ? most + 1 : next < most ? next : most;
}

static uint32_t changes(const struct feed_setting *setting, const struct feed_setting *from)
{
    return (setting->readers != from->readers) + (setting->decoders != from->decoders) +
           (setting->threads != from->threads);
}

/* Is a better than b: clearly faster, or as fast with less change or fewer threads? */
static bool is_better(const struct search *search, const struct found *a, const struct found *b)
{
    const double fast = a->prediction.images_per_second, other = b->prediction.images_per_second;
    if (fast > other * (1 + SEARCH_ALIKE) || other > fast * (1 + SEARCH_ALIKE))
        return fast > other;
    const uint32_t changed = changes(&a->setting, &search->space->now);
    const uint32_t changed_other = changes(&b->setting, &search->space->now);
    if (changed != changed_other)
        return changed < changed_other;
    return a->setting.readers + a->setting.decoders < b->setting.readers + b->setting.decoders;
}

static bool is_alike(const struct feed_setting *a, const struct feed_setting *b)
{
    return a->decoders == b->decoders && a->threads == b->threads;
}

/* Keep it among the best, one of each number of decoders and threads of a tower. */
static void keep(struct search *search, const struct found *found)
{
    uint32_t at = 0;
    while (at < search->count && !is_alike(&search->threads[at].setting, &found->setting))
        at++;
    if (at < search->count && !is_better(search, found, &search->threads[at]))
        return;
    if (at == search->count && search->count == SEARCH_FOUND_MAX) {
        at--;
        if (!is_better(search, found, &search->threads[at]))
            return;
    }
    search->count += at == search->count;
    while (at > 0 && is_better(search, found, &search->threads[at - 1])) {
        search->threads[at] = search->threads[at - 1];
        at--;
    }
    search->threads[at] = *found;
}

static int try_threads(struct search *search, uint32_t threads, uint32_t decoders, uint32_t readers)
{
    const struct feed_setting setting = { readers, decoders, threads, DEEP_RING, DEEP_SLOTS };
    struct found found;
    const int rc = predict(search, &setting, &found);
    if (rc == 0)
        keep(search, &found);
    return rc;
}

static int search_threads(struct search *search)
{
    const struct search_space *const space = search->space;
    int rc = try_threads(search, space->now.threads, space->now.decoders, space->now.readers);
    const bool has_loader = search->model->pieces > 0;
    for (uint32_t t = 1; t <= space->threads_most && rc == 0; t = next_count(t, space->threads_most)) {
        if (!search->model->steps_on_cores && t != space->now.threads)
            continue;
        for (uint32_t d = 1; d <= (has_loader ? space->decoders_most : 1) && rc == 0;
             d = next_count(d, space->decoders_most))
            for (uint32_t r = 1; r <= (has_loader ? space->readers_most : 1) && rc == 0; r *= 2)
                rc = try_threads(search, t, d, r);
    }
    return rc;
}

/* With steps that are shorter than they were measured. */
static int predict_hurried(const struct search *search, const struct feed_setting *setting, double *speed_out)
{
    struct feed_model hurried = *search->model;
    struct feed_prediction prediction;
    hurried.hurry = HURRY;
    const int rc = feed_predict(&hurried, setting, STEPS, &prediction);
    if (rc == 0)
        *speed_out = prediction.images_per_second;
    return rc;
}

/* Readers that just suffice are too few on another day: more of them, as long as towers in a hurry are faster for it
 * and those measured no slower. */
static int add_readers(struct search *search, struct found *found)
{
    double speed, more_speed;
    int rc = predict_hurried(search, &found->setting, &speed);
    while (rc == 0 && search->model->pieces > 0 && 2 * found->setting.readers <= search->space->readers_most) {
        struct found more = { .setting = found->setting };
        more.setting.readers *= 2;
        rc = predict_hurried(search, &more.setting, &more_speed);
        if (rc != 0 || more_speed <= speed * (1 + SEARCH_ALIKE))
            break;
        rc = predict(search, &more.setting, &more);
        if (rc != 0 || more.prediction.images_per_second < found->prediction.images_per_second * (1 - SEARCH_ALIKE))
            break;
        *found = more;
        speed = more_speed;
    }
    return rc;
}

static bool fits(const struct search *search, const struct feed_setting *setting)
{
    return search_more_bytes(search->space, setting) <= search->space->spare_bytes;
}

/* Keep that depth when it does, with the prediction; false: it does not. */
static bool does(struct search *search, const struct feed_setting *setting, double wanted, struct found *found, int *rc)
{
    struct found tried;
    if (*rc != 0 || !fits(search, setting))
        return false;
    *rc = predict(search, setting, &tried);
    if (*rc != 0)
        return false;
    if (tried.prediction.images_per_second >= wanted) {
        *found = tried;
        return true;
    }
    if (tried.prediction.images_per_second > found->prediction.images_per_second * (1 + SHALLOW))
        *found = tried;
    return false;
}

/* No less than is usual, where there is room for that: less saves little. */
static bool is_too_shallow(const struct search *search, const struct feed_setting *setting)
{
    struct feed_setting usual = *setting;
    usual.ring = search->space->usual.ring;
    usual.slots = search->space->usual.slots;
    return (setting->ring < usual.ring || setting->slots < usual.slots) && fits(search, &usual);
}

/* As little depth as comes near what these threads give at great depth; the usual one where it does. */
static int search_depth(struct search *search, const struct found *deep, struct found *found)
{
    const double wanted = deep->prediction.images_per_second * (1 - SHALLOW);
    struct feed_setting setting = deep->setting;
    int rc = 0;
    setting.ring = search->space->usual.ring;
    setting.slots = search->space->usual.slots;
    found->prediction.images_per_second = 0;
    if (does(search, &setting, wanted, found, &rc))
        return 0;
    for (size_t s = 0; s < COUNT(slot_depths) && rc == 0; s++)
        for (size_t i = 0; i < COUNT(depths) && rc == 0; i++) {
            setting.ring = depths[i];
            setting.slots = slot_depths[s];
            if (!is_too_shallow(search, &setting) && does(search, &setting, wanted, found, &rc))
                return 0;
        }
    return rc;
}

static double speed(const struct found *found)
{
    return found->prediction.images_per_second;
}

/* What is worth a trial: not what is configured, nor what is said to be slower than that. */
static void take(struct search_result *result, const struct found *found)
{
    bool is_known = search_is_same(&found->setting, &result->now.setting) ||
                    speed(found) <= 0.9 * speed(&result->now);
    for (uint32_t i = 0; i < result->count; i++)
        is_known = is_known || search_is_same(&found->setting, &result->found[i].setting);
    if (!is_known && result->count < SEARCH_FOUND_MAX)
        result->found[result->count++] = *found;
}

int search_feed(const struct feed_model *model, const struct search_space *space, struct search_result *result_out)
{
    struct search search = { .model = model, .space = space, .result = result_out };
    *result_out = (struct search_result){ 0 };
    int rc = predict(&search, &space->now, &result_out->now);
    if (rc == 0)
        rc = search_threads(&search);
    if (rc != 0)
        return rc;
    result_out->deepest = speed(&search.threads[0]);
    for (uint32_t i = 0; i < search.count && rc == 0; i++) {
        struct found found = { 0 };
        rc = add_readers(&search, &search.threads[i]);
        if (rc == 0)
            rc = search_depth(&search, &search.threads[i], &found);
        if (rc == 0 && found.setting.ring > 0)
            take(result_out, &found);
    }
    return rc;
}
