/* Time, money and energy of a run. */
#include "tools/lib/run/cost.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "tools/lib/run/about.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define NS_PER_HOUR 3.6e12
#define READ_NS UINT64_C(1000000000)     /* between two readings of the counters */

void cost_open(struct cost *cost, const struct settings *settings, struct ranks *ranks, uint64_t process_start_ns)
{
    memset(cost, 0, sizeof(*cost));
    cost->machines = about_host_count(ranks);
    cost->begun_ns = process_start_ns;
    cost->ranks = ranks;
    (void)price_read(settings->report.price, &cost->price);     /* was checked with the settings */
    energy_open(&cost->energy, "");
}

void cost_release(struct cost *cost)
{
    energy_close(&cost->energy);
}

int cost_find_energy(struct cost *cost, const struct run_devices *devices)
{
    char buses[DEVICES_MAX][BUS_BYTES];
    const uint32_t gpus = devices->ops->host_memory ? 0 : devices->count;
    if (cost->has_sources)
        return 0;
    for (uint32_t i = 0; i < gpus; i++)
        run_devices_bus(devices, i, buses[i]);
    energy_add_gpus(&cost->energy, buses, gpus);
    cost->has_sources = true;
    return energy_share_agree(cost->ranks, &cost->energy, devices, &cost->sources);
}

void cost_begin(struct cost *cost, const struct run_spent *earlier, const struct account_state *sums)
{
    if (cost->has_begun)
        return;
    cost->has_begun = true;
    cost->earlier = *earlier;
    if (earlier->wall_ns == 0 && sums->training.wall_ns > 0)
        cost->earlier = (struct run_spent){ .wall_ns = sums->training.wall_ns, .is_partial = 1,
                                        .machines_ns = sums->training.wall_ns * cost->machines };
}

/* ---- energy of all ranks ---- */

static struct cost_energy own_energy(struct cost *cost, bool is_last)
{
    return (struct cost_energy){ .microjoules = energy_sum(&cost->energy), .is_last = is_last,
                                 .is_partial = energy_is_partial(&cost->energy) };
}

static void send_energy(struct cost *cost, bool is_last)
{
    struct cost_energy own;
    memset(&own, 0, sizeof(own));
    own = own_energy(cost, is_last);
    (void)ranks_send(cost->ranks, 0, MESSAGE_ENERGY, &own, sizeof(own));    /* an error ends the run elsewhere */
}

static void take_energy(struct cost *cost, uint32_t rank, struct message *message)
{
    assert(message->bytes == sizeof(cost->others[rank]));
    memcpy(&cost->others[rank], message->data, sizeof(cost->others[rank]));
    free(message);
}

static void receive_energy(struct cost *cost)
{
    struct message *message;
    for (uint32_t rank = 1; rank < ranks_size(cost->ranks); rank++)
        while ((message = ranks_try_receive(cost->ranks, rank, MESSAGE_ENERGY)) != NULL)
            take_energy(cost, rank, message);
}

/* Has the last message of the rank arrived? False: a rank has failed. */
static bool await_energy(struct cost *cost, uint32_t rank)
{
    struct message *message;
    while (!cost->others[rank].is_last) {
        if (ranks_receive(cost->ranks, rank, MESSAGE_ENERGY, &message) != 0)
            return false;
        take_energy(cost, rank, message);
    }
    cost->others[rank].is_last = false;         /* after a rollback more come */
    return true;
}

void cost_follow(struct cost *cost, bool now)
{
    const uint64_t now_ns = clock_now_ns();
    if (!now && now_ns - cost->read_ns < READ_NS)
        return;
    cost->read_ns = now_ns;
    energy_read(&cost->energy);
    if (cost->ranks == NULL)
        return;
    if (ranks_rank(cost->ranks) == 0)
        receive_energy(cost);
    else
        send_energy(cost, false);
}

void cost_end(struct cost *cost)
{
    energy_read(&cost->energy);
    if (cost->ranks != NULL && ranks_rank(cost->ranks) > 0)
        send_energy(cost, true);
    else
        for (uint32_t rank = 1; rank < ranks_size(cost->ranks) && await_energy(cost, rank); rank++)
            continue;
}

struct run_spent cost_spent(struct cost *cost)
{
    const uint64_t here_ns = clock_now_ns() - cost->begun_ns;
    const struct cost_energy own = own_energy(cost, false);
    struct run_spent spent = cost->earlier;
    spent.wall_ns += here_ns;
    spent.machines_ns += here_ns * cost->machines;
    spent.microjoules += own.microjoules;
    spent.is_partial |= own.is_partial || cost->sources.blind_hosts > 0 || cost->sources.blind_gpus > 0;
    for (uint32_t rank = 1; rank < ranks_size(cost->ranks); rank++) {
        spent.microjoules += cost->others[rank].microjoules;
        spent.is_partial |= cost->others[rank].is_partial;
    }
    return spent;
}

/* ---- results ---- */

double cost_money(const struct price *price, const struct run_spent *spent)
{
    return price->amount > 0 ? price->amount * (double)spent->machines_ns / NS_PER_HOUR : NAN;
}

static double joules(const struct run_spent *spent)
{
    return spent->microjoules > 0 ? (double)spent->microjoules / 1e6 : NAN;
}

void cost_measure(const struct cost *cost, uint64_t images, const struct run_progress *progress,
                  struct metric_values *values)
{
    const struct run_spent *const spent = &progress->spent, *const best = &progress->best_spent;
    const bool knows_best = best->wall_ns > 0;
    struct cost_values *const out = &values->run.cost;
    values->has |= (cost->price.amount > 0 ? NEEDS_PRICE : 0) | (spent->microjoules > 0 ? NEEDS_ENERGY : 0);
    *out = (struct cost_values){
        .seconds = (double)spent->wall_ns / 1e9,
        .machine_seconds = (double)spent->machines_ns / 1e9,
        .money = cost_money(&cost->price, spent),
        .joules = joules(spent),
        .is_whole_energy = spent->is_partial == 0,
        .best = { .seconds = knows_best ? (double)best->wall_ns / 1e9 : NAN,
                  .money = knows_best ? cost_money(&cost->price, best) : NAN,
                  .joules = joules(best) },
    };
    out->images_per_money = (double)images / out->money;
    out->images_per_joule = (double)images / out->joules;
}

/* "2 CPU packages and 1 GPU"; "" if there are none of either. */
static void name_counters(uint32_t packages, uint32_t gpus, char *text, size_t text_size)
{
    size_t used = 0;
    *text = '\0';
    if (packages > 0)
        used += (size_t)snprintf(text, text_size, "%u CPU package%s", packages, packages == 1 ? "" : "s");
    if (gpus > 0)
        snprintf(text + used, text_size - used, "%s%u GPU%s", used > 0 ? " and " : "", gpus, gpus == 1 ? "" : "s");
}

static void print_sources(const struct energy_sources *sources, FILE *out)
{
    const char *const packages = sources->why_no_package, *const gpus = sources->why_no_gpu;
    const bool has_both = *packages != '\0' && *gpus != '\0';
    char counters[64], why[2 * ENERGY_WHY_BYTES + 16];
    name_counters(sources->packages, sources->gpus, counters, sizeof(counters));
    snprintf(why, sizeof(why), "%s%s%s", packages, has_both ? "; " : "", gpus);
    if (*counters == '\0')
        wrapped_print(out, "energy    not measured: %s", why);
    else
        wrapped_print(out, "energy    measured of %s, with what other programs use of %s%s%s", counters,
                      sources->packages + sources->gpus == 1 ? "it" : "them", *why != '\0' ? "; the rest is unknown: " : "",
                      why);
}

void cost_print_plan(const struct cost *cost, FILE *out)
{
    const struct price *const price = &cost->price;
    if (price->amount > 0 && cost->machines == 1)
        wrapped_print(out, "price     %s an hour of this machine", price_text(price->amount, price->currency).text);
    else if (price->amount > 0)
        wrapped_print(out, "price     %s an hour of a machine, %s of all %u",
                      price_text(price->amount, price->currency).text,
                      price_text(price->amount * cost->machines, price->currency).text, cost->machines);
    print_sources(&cost->sources, out);
}

/* "12.2 s", "3.41 h" */
static struct number time_text(double seconds)
{
    struct number out;
    if (seconds < 3600)
        snprintf(out.text, sizeof(out.text), "%.1f s", seconds);
    else
        snprintf(out.text, sizeof(out.text), "%.2f h", seconds / 3600);
    return out;
}

static void print_money(const struct cost *cost, const struct cost_values *values, FILE *out)
{
    const char *const currency = cost->price.currency;
    char machines[32] = "", best[96] = "";
    if (cost->machines > 1)
        snprintf(machines, sizeof(machines), " on %u machines", cost->machines);
    if (isfinite(values->best.money))
        snprintf(best, sizeof(best), "; %s up to the best evaluation", price_text(values->best.money, currency).text);
    wrapped_print(out, "cost      %s (%s%s, %s an hour%s): %s images/%s%s", price_text(values->money, currency).text,
                  time_text(values->seconds).text, machines, price_text(cost->price.amount, currency).text,
                  cost->machines > 1 ? " each" : "", number_rate(values->images_per_money).text, currency, best);
}

/* "1,234 J" */
static struct number joules_text(double value)
{
    return number_cell(value, value < 100 ? 1 : 0, " J", 16);
}

static void print_energy(const struct cost_values *values, FILE *out)
{
    const bool is_whole = values->is_whole_energy;
    char best[64] = "";
    if (isfinite(values->best.joules))
        snprintf(best, sizeof(best), "; %s up to the best evaluation", joules_text(values->best.joules).text);
    wrapped_print(out, "energy    %s%s: %s%s images/J%s", is_whole ? "" : "at least ", joules_text(values->joules).text,
                  is_whole ? "" : "at most ", number_rate(values->images_per_joule).text, best);
}

void cost_print(const struct cost *cost, const struct metric_values *values, FILE *out)
{
    if ((values->has & NEEDS_PRICE) != 0)
        print_money(cost, &values->run.cost, out);
    if ((values->has & NEEDS_ENERGY) != 0)
        print_energy(&values->run.cost, out);
}

void cost_write(const struct cost *cost, struct json *json)
{
    if (cost->price.amount <= 0)
        return;
    json_open_object(json, "price");
    json_double(json, "per_hour", cost->price.amount);
    json_quoted(json, "currency", cost->price.currency);
    json_u64(json, "machines", cost->machines);
    json_close_object(json);
}
