/* Time, money and energy of a run. */
#include "tools/lib/run/cost.h"

#include <math.h>

#include "stage/clock.h"
#include "tools/lib/run/about.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define NS_PER_HOUR 3.6e12

void cost_init(struct cost *cost, const struct settings *settings, const struct ranks *ranks, uint64_t process_start_ns)
{
    *cost = (struct cost){ .machines = about_host_count(ranks), .begun_ns = process_start_ns };
    (void)price_read(settings->report.price, &cost->price);     /* was checked with the settings */
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

struct run_spent cost_spent(const struct cost *cost)
{
    const uint64_t here_ns = clock_now_ns() - cost->begun_ns;
    struct run_spent spent = cost->earlier;
    spent.wall_ns += here_ns;
    spent.machines_ns += here_ns * cost->machines;
    return spent;
}

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

void cost_print_plan(const struct cost *cost, FILE *out)
{
    const struct price *const price = &cost->price;
    if (price->amount <= 0)
        return;
    if (cost->machines == 1)
        wrapped_print(out, "price     %s an hour of this machine", price_text(price->amount, price->currency).text);
    else
        wrapped_print(out, "price     %s an hour of a machine, %s of all %u",
                      price_text(price->amount, price->currency).text,
                      price_text(price->amount * cost->machines, price->currency).text, cost->machines);
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

void cost_print(const struct cost *cost, const struct metric_values *values, FILE *out)
{
    if ((values->has & NEEDS_PRICE) != 0)
        print_money(cost, &values->run.cost, out);
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
