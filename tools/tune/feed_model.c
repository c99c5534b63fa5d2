/* Events of a feed, one after the other: what has room and input begins, the next job ends. */
#include "tools/tune/feed_model.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define SOON 1e-12              /* seconds: what is left by rounding */
#define FILL_STEPS 100u         /* that are not counted: the same for all settings, which then meet the same times */

/* A server and what it is at. */
struct server {
    double left;                /* seconds of its job, alone on its cores */
    uint64_t piece;             /* that it is at */
    double busy;                /* seconds so far */
    bool is_busy;
};

struct feed {
    const struct feed_model *model;
    const struct feed_setting *setting;
    const struct feed_times *step;      /* of the nearest number of threads */
    double step_factor;                 /* to the wanted number */
    struct server readers[FEED_THREADS_MAX], decoders[FEED_THREADS_MAX], feeders[FEED_TOWERS_MAX], team;
    uint64_t *queue;                    /* pieces that are read, in the order they were */
    uint64_t queue_room, queue_first, queue_end;
    uint32_t *done;                     /* pieces of each place of each ring */
    uint64_t next_piece, in_work;
    uint64_t fed[FEED_TOWERS_MAX];      /* batches whose copy ended */
    uint64_t late;                      /* copies that waited for the ring */
    bool is_late[FEED_TOWERS_MAX];
    uint64_t steps;                     /* that ended */
    double step_seconds;                /* of the one that runs, alone on its cores */
    double now, waited;                 /* waited: the team for input */
    double core_seconds;                /* that were computed */
};

double feed_mean(const struct feed_times *times)
{
    double sum = 0;
    for (size_t i = 0; i < times->count; i++)
        sum += times->seconds[i];
    return times->count > 0 ? sum / (double)times->count : 0;
}

static size_t count_below(const struct feed_times *times, double seconds)
{
    size_t below = 0;
    for (size_t i = 0; i < times->count; i++)
        below += times->seconds[i] < seconds;
    return below;
}

/* The largest that less than half of all are below. */
double feed_median(const struct feed_times *times)
{
    double median = 0;
    for (size_t i = 0; i < times->count; i++)
        if (times->seconds[i] > median && 2 * count_below(times, times->seconds[i]) < times->count)
            median = times->seconds[i];
    return median;
}

double feed_spread(const struct feed_times *times)
{
    const double mean = feed_mean(times);
    double squares = 0;
    for (size_t i = 0; i < times->count; i++)
        squares += (times->seconds[i] - mean) * (times->seconds[i] - mean);
    return mean > 0 ? sqrt(squares / (double)times->count) / mean : 0;
}

double feed_step_seconds(const struct feed_model *model, uint32_t threads)
{
    uint32_t above = 0;
    while (above + 1 < model->step_kinds && model->step_threads[above] < threads)
        above++;
    const double at_above = feed_mean(&model->step[above]);
    if (model->step_threads[above] == threads || model->step_kinds == 1)
        return at_above;
    const uint32_t other = above > 0 ? above - 1 : 1;
    const double x = 1.0 / model->step_threads[above], y = 1.0 / model->step_threads[other];
    const double slope = (feed_mean(&model->step[other]) - at_above) / (y - x);
    const double seconds = at_above + slope * (1.0 / threads - x);
    return fmax(seconds, at_above * model->step_threads[above] / (double)threads * 0.5);
}

static void choose_steps(struct feed *feed)
{
    const struct feed_model *const model = feed->model;
    const uint32_t threads = feed->setting->threads;
    uint32_t kind = 0;
    while (kind + 1 < model->step_kinds && model->step_threads[kind] < threads)
        kind++;
    const double mean = feed_mean(&model->step[kind]);
    feed->step = &model->step[kind];
    feed->step_factor = (1 - model->hurry) * (mean > 0 ? feed_step_seconds(model, threads) / mean : 1);
}

static double service(const struct feed_times *times, uint64_t n)
{
    return times->count > 0 ? times->seconds[n % times->count] : 0;
}

static void begin(struct server *server, uint64_t piece, double seconds)
{
    server->is_busy = true;
    server->piece = piece;
    server->left = seconds;
}

static uint32_t tower_of(const struct feed *feed, uint64_t piece)
{
    return (uint32_t)(piece / feed->model->pieces % feed->model->towers);
}

static uint64_t batch_of(const struct feed *feed, uint64_t piece)
{
    return piece / feed->model->pieces / feed->model->towers;
}

static uint32_t *place(const struct feed *feed, uint32_t tower, uint64_t batch)
{
    return &feed->done[tower * feed->setting->ring + batch % feed->setting->ring];
}

/* The readers' next piece has a work that is free and a place in its ring. */
static bool has_room(const struct feed *feed)
{
    const struct feed_setting *const setting = feed->setting;
    const uint64_t works = (uint64_t)setting->readers + setting->decoders + feed->model->between;
    return feed->in_work < works &&
           batch_of(feed, feed->next_piece) < feed->fed[tower_of(feed, feed->next_piece)] + setting->ring;
}

static void begin_reads(struct feed *feed)
{
    for (uint32_t i = 0; i < feed->setting->readers && has_room(feed); i++)
        if (!feed->readers[i].is_busy) {
            begin(&feed->readers[i], feed->next_piece, service(&feed->model->read, feed->next_piece));
            feed->next_piece++;
            feed->in_work++;
        }
}

static void begin_decodes(struct feed *feed)
{
    for (uint32_t i = 0; i < feed->setting->decoders && feed->queue_first < feed->queue_end; i++)
        if (!feed->decoders[i].is_busy) {
            const uint64_t piece = feed->queue[feed->queue_first++ % feed->queue_room];
            begin(&feed->decoders[i], piece, service(&feed->model->decode, piece));
        }
}

/* Seconds of the step that runs until its slot is given back, alone on its cores; 0 or less: it was. */
static double slot_left(const struct feed *feed)
{
    return feed->team.left - feed->model->slot_free * feed->step_seconds;
}

static bool has_given_back(const struct feed *feed)
{
    return feed->team.is_busy && slot_left(feed) <= SOON;
}

static void begin_copies(struct feed *feed)
{
    for (uint32_t t = 0; t < feed->model->towers; t++) {
        if (feed->feeders[t].is_busy)
            continue;
        const uint64_t batch = feed->fed[t];
        const bool has_slot = batch < feed->steps + has_given_back(feed) + feed->setting->slots;
        if (*place(feed, t, batch) < feed->model->pieces) {
            feed->is_late[t] = true;
        } else if (has_slot) {
            feed->late += feed->is_late[t];
            feed->is_late[t] = false;
            begin(&feed->feeders[t], batch, service(&feed->model->copy, batch));
        }
    }
}

static void begin_step(struct feed *feed)
{
    if (feed->team.is_busy)
        return;
    for (uint32_t t = 0; t < feed->model->towers && feed->model->pieces > 0; t++)
        if (feed->fed[t] <= feed->steps)
            return;
    feed->step_seconds = service(feed->step, feed->steps) * feed->step_factor;
    begin(&feed->team, feed->steps, feed->step_seconds);
}

static void end_read(struct feed *feed, uint64_t piece)
{
    feed->queue[feed->queue_end++ % feed->queue_room] = piece;
}

static void end_decode(struct feed *feed, uint64_t piece)
{
    ++*place(feed, tower_of(feed, piece), batch_of(feed, piece));
    feed->in_work--;
}

static void end_copies(struct feed *feed, uint32_t tower)
{
    *place(feed, tower, feed->fed[tower]) = 0;
    feed->fed[tower]++;
}

static uint32_t busy_count(const struct server *servers, uint32_t count)
{
    uint32_t busy = 0;
    for (uint32_t i = 0; i < count; i++)
        busy += servers[i].is_busy;
    return busy;
}

static double busy_team_cores(const struct feed *feed)
{
    const bool computes = feed->team.is_busy && feed->model->steps_on_cores;
    return computes ? (double)feed->setting->threads * feed->model->towers : 0;
}

/* How fast each kind of server is now. */
struct rates { double read, decode, copy, step; };

/* What wants a core: threads of towers, of the loader, and copies. */
struct wanted { double team, loader, copies; };

static struct wanted wanted_now(const struct feed *feed)
{
    const struct feed_model *const model = feed->model;
    return (struct wanted){ .team = busy_team_cores(feed),
                            .loader = model->read_cores * busy_count(feed->readers, feed->setting->readers) +
                                      model->decode_cores * busy_count(feed->decoders, feed->setting->decoders),
                            .copies = model->copies_on_cores ? busy_count(feed->feeders, model->towers) : 0 };
}

static double cores_wanted(const struct wanted *wanted)
{
    return wanted->team + wanted->loader + wanted->copies;
}

/* Shares of a core: of a thread of the loader, of a copy, and what a team gets done. */
struct shares { double loader, copy, team; };

/* What disturbs a team costs it `crowding` times what its share of the cores tells. */
static double disturbed(double crowding, double share)
{
    return 1 / (1 + crowding * (1 / share - 1));
}

/* The loader's threads take the cores that towers leave, as many of them on one as weigh no more than a tower's thread.
 * The others are beside towers' threads, spread evenly, but whole: some cores have one more than the rest, and a team
 * is as slow as its thread on such a core and keeps its others meanwhile. What the loader gets is its share, whatever
 * crowding says of the team. A copy weighs as much as a tower's thread. Steps were measured with all of a team's
 * threads, so that the cores that these share are in their times. */
static struct shares shares_of(const struct feed_model *model, const struct wanted *wanted)
{
    const double cores = model->cores, weight = model->loader_weight, team = wanted->team;
    const double loader = wanted->loader + wanted->copies / weight;     /* in threads that weigh so much */
    if (cores_wanted(wanted) <= cores || loader == 0)
        return (struct shares){ 1, 1, 1 };
    if (team == 0) {
        const double share = fmin(cores / loader, 1);
        return (struct shares){ .loader = share, .copy = fmin(share / weight, 1), .team = 1 };
    }
    const double held = fmin(team, cores), each = team / held;      /* cores with towers' threads; how many each has */
    const double beside = fmax(loader - (cores - held) / weight, 0) / held;
    const double least = floor(beside), shared = beside - least, met = fmin(shared * held, 1);
    const double fewer = 1 / (each + least * weight), more = 1 / (each + (least + 1) * weight);
    const double mean = shared * more + (1 - shared) * fewer;
    const double share = fmin(fmax((cores - team * mean) / loader, 0.01), 1);
    return (struct shares){ .loader = share, .copy = fmin(share / weight, 1),
                            .team = disturbed(model->crowding, each * (met * more + (1 - met) * fewer)) };
}

/* Of what takes `cores` of a core where it has one for itself and waits otherwise. */
static double slowed(double cores, double share)
{
    return 1 / (cores / share + 1 - cores);
}

static struct rates rates_of(const struct feed_model *model, const struct wanted *wanted)
{
    const struct shares shares = shares_of(model, wanted);
    return (struct rates){ .read = slowed(model->read_cores, shares.loader),
                           .decode = slowed(model->decode_cores, shares.loader),
                           .copy = model->copies_on_cores ? shares.copy : 1,
                           .step = shares.team };
}

static double soonest(const struct server *servers, uint32_t count, double rate, double best)
{
    for (uint32_t i = 0; i < count; i++)
        if (servers[i].is_busy)
            best = fmin(best, servers[i].left / rate);
    return best;
}

/* Let so much time pass; true: the job is done. */
static bool advance(struct server *server, double seconds, double rate)
{
    if (!server->is_busy)
        return false;
    server->busy += seconds;
    server->left -= seconds * rate;
    server->is_busy = server->left > SOON;
    return !server->is_busy;
}

/* To the end of the next job; false: none runs. */
static bool next_event(struct feed *feed)
{
    const struct feed_setting *const setting = feed->setting;
    const uint32_t towers = feed->model->towers;
    const struct wanted wanted = wanted_now(feed);
    const struct rates rates = rates_of(feed->model, &wanted);
    double seconds = soonest(feed->readers, setting->readers, rates.read, INFINITY);
    seconds = soonest(feed->decoders, setting->decoders, rates.decode, seconds);
    seconds = soonest(feed->feeders, towers, rates.copy, seconds);
    seconds = soonest(&feed->team, 1, rates.step, seconds);
    if (feed->team.is_busy && !has_given_back(feed))
        seconds = fmin(seconds, slot_left(feed) / rates.step);
    if (!isfinite(seconds))
        return false;
    feed->now += seconds;
    feed->core_seconds += seconds * fmin(cores_wanted(&wanted), feed->model->cores);
    if (!feed->team.is_busy)
        feed->waited += seconds;
    for (uint32_t i = 0; i < setting->readers; i++)
        if (advance(&feed->readers[i], seconds, rates.read))
            end_read(feed, feed->readers[i].piece);
    for (uint32_t i = 0; i < setting->decoders; i++)
        if (advance(&feed->decoders[i], seconds, rates.decode))
            end_decode(feed, feed->decoders[i].piece);
    for (uint32_t t = 0; t < towers; t++)
        if (advance(&feed->feeders[t], seconds, rates.copy))
            end_copies(feed, t);
    feed->steps += advance(&feed->team, seconds, rates.step);
    return true;
}

static double busy_seconds(const struct server *servers, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += servers[i].busy;
    return sum;
}

static void run_to(struct feed *feed, uint64_t steps)
{
    while (feed->steps < steps) {
        if (feed->model->pieces > 0) {
            begin_reads(feed);
            begin_decodes(feed);
            begin_copies(feed);
        }
        begin_step(feed);
        if (!next_event(feed))
            return;
    }
}

/* What happened since the queues were full. */
struct mark { double now, waited, readers, decoders, cores; uint64_t late; };

static struct mark mark_of(const struct feed *feed)
{
    return (struct mark){ feed->now, feed->waited, busy_seconds(feed->readers, feed->setting->readers),
                          busy_seconds(feed->decoders, feed->setting->decoders), feed->core_seconds,
                          feed->late };
}

static struct feed_prediction predict(struct feed *feed, uint32_t steps)
{
    const struct feed_setting *const setting = feed->setting;
    run_to(feed, FILL_STEPS);
    const struct mark from = mark_of(feed);
    run_to(feed, FILL_STEPS + steps);
    const struct mark to = mark_of(feed);
    const double seconds = to.now - from.now;
    if (seconds <= 0)
        return (struct feed_prediction){ .images_per_second = INFINITY };
    return (struct feed_prediction){
        .images_per_second = (double)steps * feed->model->batch / seconds,
        .input_wait = (to.waited - from.waited) / seconds,
        .readers_busy = (to.readers - from.readers) / seconds / setting->readers,
        .decoders_busy = (to.decoders - from.decoders) / seconds / setting->decoders,
        .cores_busy = (to.cores - from.cores) / seconds,
        .ring_empty = (double)(to.late - from.late) / ((double)steps * feed->model->towers),
    };
}

struct feed_model feed_cached(const struct feed_model *model, double *seconds)
{
    struct feed_model cached = *model;
    *seconds = feed_mean(&model->read) * model->read_cores;
    cached.read = (struct feed_times){ seconds, 1 };
    cached.read_cores = 1;
    return cached;
}

static bool is_within(uint32_t value, uint32_t most)
{
    return value >= 1 && value <= most;
}

int feed_predict(const struct feed_model *model, const struct feed_setting *setting, uint32_t steps,
                 struct feed_prediction *prediction_out)
{
    assert(is_within(setting->readers, FEED_THREADS_MAX) && is_within(setting->decoders, FEED_THREADS_MAX));
    assert(is_within(setting->ring, FEED_DEPTH_MAX) && is_within(setting->slots, FEED_DEPTH_MAX));
    assert(is_within(model->towers, FEED_TOWERS_MAX) && is_within(model->step_kinds, FEED_STEP_KINDS));
    struct feed *const feed = calloc(1, sizeof(*feed));
    const uint64_t works = (uint64_t)setting->readers + setting->decoders + model->between;
    uint64_t *const queue = calloc(works, sizeof(*queue));
    uint32_t *const done = calloc((size_t)model->towers * setting->ring, sizeof(*done));
    const int rc = feed == NULL || queue == NULL || done == NULL ? -ENOMEM : 0;
    if (rc == 0) {
        feed->model = model;
        feed->setting = setting;
        feed->queue = queue;
        feed->queue_room = works;
        feed->done = done;
        choose_steps(feed);
        *prediction_out = predict(feed, steps);
    }
    free(done);
    free(queue);
    free(feed);
    return rc;
}
