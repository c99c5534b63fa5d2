/* Which samples belong to every batch of a run. Pure functions, called from any thread: by readers to divide the
 * reading, by trainers to know the next batches. */
#include "stage/schedule.h"

#include <assert.h>
#include <errno.h>

static uint64_t divide_up(uint64_t number, uint64_t divisor)
{
    return number / divisor + (number % divisor != 0);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool schedule_slices_fit(uint32_t slices, uint32_t towers)
{
    const uint32_t each = slices / towers;
    return towers == 1 || (slices % towers == 0 && each > 0 && (each & (each - 1)) == 0);
}

/* The last pair may consist of one sample. */
struct batch_part batch_part_find(uint32_t samples, bool pairs, uint32_t parts, uint32_t part)
{
    const uint64_t unit = pairs ? 2 : 1, units = divide_up(samples, unit);
    const uint64_t first = smaller(divide_up(units * part, parts) * unit, samples);
    const uint64_t end = smaller(divide_up(units * (part + 1), parts) * unit, samples);
    return (struct batch_part){ (uint32_t)first, (uint32_t)(end - first) };
}

uint32_t batch_part_with(uint32_t samples, bool pairs, uint32_t parts, uint32_t sample)
{
    assert(sample < samples);
    const uint64_t unit = pairs ? 2 : 1, units = divide_up(samples, unit);
    return (uint32_t)(sample / unit * parts / units);
}

struct lane_range schedule_lanes(const struct schedule *schedule)
{
    const struct tower_range here = schedule_here(schedule);
    const uint64_t lanes = schedule->lanes;
    if (lanes <= 1)
        return (struct lane_range){ 0, 1 };
    assert(here.first * lanes % schedule->towers == 0 && here.count * lanes % schedule->towers == 0);
    return (struct lane_range){ (uint32_t)(here.first * lanes / schedule->towers),
                                (uint32_t)(here.count * lanes / schedule->towers) };
}

uint64_t schedule_steps_per_epoch(const struct schedule *schedule)
{
    const uint64_t records = schedule->records[PHASE_TRAIN];
    return schedule->drop_last ? records / schedule->batch : divide_up(records, schedule->batch);
}

uint64_t schedule_batches_per_evaluation(const struct schedule *schedule)
{
    return divide_up(schedule->records[PHASE_EVALUATE], schedule->batch);
}

uint64_t schedule_step_count(const struct schedule *schedule)
{
    const uint64_t all = schedule_steps_per_epoch(schedule) * schedule->epochs;
    return schedule->steps ? smaller(schedule->steps, all) : all;
}

uint64_t schedule_batch_count(const struct schedule *schedule)
{
    const uint64_t steps = schedule_step_count(schedule);
    if (schedule->records[PHASE_TRAIN] == 0)
        return schedule_batches_per_evaluation(schedule) * (schedule->evaluations > 0 ? schedule->evaluations : 1);
    if (steps == 0)
        return 0;
    const uint64_t epochs = divide_up(steps, schedule_steps_per_epoch(schedule));
    return steps + epochs * schedule_batches_per_evaluation(schedule);
}

/* With slices and with lanes, towers have equally long ranges of these. Otherwise the first towers have the larger
 * shares. */
static struct batch_part tower_part(const struct schedule *schedule, uint32_t samples, uint32_t tower)
{
    const uint32_t towers = schedule->towers;
    if (schedule->slices > 0 || schedule->lanes > 1)
        return batch_part_find(samples, schedule->pairs, towers, tower);
    const uint64_t unit = schedule->pairs ? 2 : 1, units = divide_up(samples, unit);
    const uint64_t base = units / towers, larger = units % towers;
    const uint64_t first = smaller((tower * base + smaller(tower, larger)) * unit, samples);
    const uint64_t count = smaller((base + (tower < larger)) * unit, samples - first);
    return (struct batch_part){ (uint32_t)first, (uint32_t)count };
}

uint32_t schedule_local_max(const struct schedule *schedule)
{
    return tower_part(schedule, schedule->batch, 0).count;
}

/* Batches of a complete epoch. */
static uint64_t batches_per_epoch(const struct schedule *schedule)
{
    return schedule_steps_per_epoch(schedule) + schedule_batches_per_evaluation(schedule);
}

/* Steps of `epoch`: the last epoch of the run may be incomplete. */
static uint64_t steps_of(const struct schedule *schedule, uint64_t epoch)
{
    const uint64_t per_epoch = schedule_steps_per_epoch(schedule);
    return smaller(per_epoch, schedule_step_count(schedule) - epoch * per_epoch);
}

/* Set all fields except those about samples: find the phase of batch `number`. Returns the index of the batch in the
 * phase. */
static uint64_t local_batch_locate(const struct schedule *schedule, uint64_t number, struct local_batch *local)
{
    const uint64_t epoch = number / batches_per_epoch(schedule);
    const uint64_t in_epoch = number % batches_per_epoch(schedule);
    const uint64_t steps = steps_of(schedule, epoch);
    const bool is_training = in_epoch < steps;
    const uint64_t in_phase = is_training ? in_epoch : in_epoch - steps;

    local->number = number;
    local->phase = is_training ? PHASE_TRAIN : PHASE_EVALUATE;
    local->epoch = (uint32_t)epoch;
    local->step = is_training ? epoch * schedule_steps_per_epoch(schedule) + in_phase : in_phase;
    local->first_of_phase = in_phase == 0;
    local->last_of_phase = in_phase + 1 == (is_training ? steps : schedule_batches_per_evaluation(schedule));
    return in_phase;
}

static void local_batch_divide(const struct schedule *schedule, uint64_t in_phase, uint32_t tower,
                               struct local_batch *local)
{
    const uint64_t first = in_phase * schedule->batch;
    const uint32_t count = (uint32_t)smaller(schedule->batch, schedule->records[local->phase] - first);
    const struct batch_part part = tower_part(schedule, count, tower);
    local->global_count = count;
    local->count = part.count;
    local->first_position = first + part.first;
}

int schedule_find(const struct schedule *schedule, uint64_t number, uint32_t tower, struct local_batch *local_out)
{
    if (number >= schedule_batch_count(schedule))
        return -ENODATA;
    const uint64_t in_phase = local_batch_locate(schedule, number, local_out);
    local_batch_divide(schedule, in_phase, tower, local_out);
    return 0;
}

int schedule_seek(const struct schedule *schedule, struct position position, uint64_t *number_out)
{
    if (position.epoch > schedule->epochs || position.step > schedule_step_count(schedule))
        return -EINVAL;
    const uint64_t before = position.epoch * schedule_steps_per_epoch(schedule);
    if (position.step < before || position.step - before > schedule_steps_per_epoch(schedule))
        return -EINVAL;
    const uint64_t trained = position.step - before;
    const uint64_t evaluated = trained == steps_of(schedule, position.epoch) ? position.evaluated : 0;
    const uint64_t number = position.epoch * batches_per_epoch(schedule) + trained + evaluated;
    if (evaluated > schedule_batches_per_evaluation(schedule) || number > schedule_batch_count(schedule))
        return -EINVAL;
    *number_out = number;
    return 0;
}

struct position schedule_position(const struct schedule *schedule, uint64_t number)
{
    assert(number <= schedule_batch_count(schedule));
    if (number == 0)
        return (struct position){ 0 };
    const uint64_t epoch = number / batches_per_epoch(schedule);
    const uint64_t in_epoch = number % batches_per_epoch(schedule);
    const uint64_t trained = smaller(in_epoch, steps_of(schedule, epoch));
    return (struct position){
        .epoch = (uint32_t)epoch,
        .step = epoch * schedule_steps_per_epoch(schedule) + trained,
        .evaluated = in_epoch - trained,
    };
}

uint64_t schedule_steps_left(const struct schedule *schedule)
{
    return schedule_step_count(schedule) - schedule_position(schedule, schedule->first).step;
}
