/* Sums to text and back, number by number. */
#include "tools/run/state/account_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"

#define COUNTS_MAX 64u

/* All whole numbers of the sums, in the order of the text; the losses stand behind them, and what they are not of. */
struct places {
    uint64_t *counts[COUNTS_MAX];
    uint32_t count;
    double *losses[PHASE_COUNT + 2];
    uint64_t *lossless[PHASE_COUNT + 2];
    uint32_t tallies;
};

static void add_tally(struct places *places, struct tally *tally)
{
    struct step_times *const times = &tally->times;
    uint64_t *const counts[] = {
        &tally->images,       &tally->correct, &tally->steps,    &tally->wall_ns,           &times->input_wait,
        &times->exposed_copy, &times->forward, &times->backward, &times->exposed_reduction, &times->update,
        &times->other,        &times->total,
    };
    memcpy(places->counts + places->count, counts, sizeof(counts));
    places->count += sizeof(counts) / sizeof(*counts);
    places->lossless[places->tallies] = &tally->lossless;
    places->losses[places->tallies++] = &tally->loss_sum;
}

static struct places places_of(struct account_state *state)
{
    struct places places = { .count = 0 };
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        add_tally(&places, &state->passes[phase]);
    add_tally(&places, &state->interval);
    add_tally(&places, &state->training);
    places.counts[places.count++] = &state->order_hash;
    places.counts[places.count++] = &state->evaluated_step;
    return places;
}

void account_text_write(const struct account_state *state, char text_out[ACCOUNT_TEXT_BYTES])
{
    struct account_state copy = *state;
    const struct places places = places_of(&copy);
    size_t used = 0;
    for (uint32_t i = 0; i < places.count; i++)
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, "%" PRIu64 " ", *places.counts[i]);
    for (uint32_t i = 0; i < places.tallies; i++) {
        char number[DECIMAL_SIZE];
        decimal_write(*places.losses[i], number, sizeof(number));
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, "%s ", number);
    }
    for (uint32_t i = 0; i < places.tallies; i++)
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, "%" PRIu64 "%s", *places.lossless[i],
                                 i + 1 < places.tallies ? " " : "");
}

static const char *read_count(const char *text, uint64_t *count_out)
{
    char *end;
    errno = 0;
    *count_out = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *text == '-')
        return NULL;
    return *end == ' ' ? end + 1 : *end == '\0' ? end : NULL;
}

static const char *read_loss(const char *text, double *loss_out)
{
    const char *const end = decimal_end(text);
    if (end == NULL)
        return NULL;
    *loss_out = decimal_read(text);
    return *end == ' ' ? end + 1 : *end == '\0' ? end : NULL;
}

static bool is_possible(const struct tally *tally)
{
    return tally->correct <= tally->images && tally->lossless <= tally->images && isfinite(tally->loss_sum);
}

static bool are_possible(const struct account_state *state)
{
    bool possible = is_possible(&state->interval) && is_possible(&state->training);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        possible = possible && is_possible(&state->passes[phase]);
    return possible;
}

int account_text_read(struct account_state *state_out, const char *text)
{
    struct account_state state = { .order_hash = 0 };
    const struct places places = places_of(&state);
    for (uint32_t i = 0; i < places.count && text != NULL; i++)
        text = read_count(text, places.counts[i]);
    for (uint32_t i = 0; i < places.tallies && text != NULL; i++)
        text = read_loss(text, places.losses[i]);
    for (uint32_t i = 0; i < places.tallies && text != NULL; i++)
        text = read_count(text, places.lossless[i]);
    if (text == NULL || *text != '\0' || !are_possible(&state))
        return -EINVAL;
    *state_out = state;
    return 0;
}
