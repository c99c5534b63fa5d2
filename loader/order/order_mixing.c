/* The measure of an order, by a sample. Called for the plan of a run. */
#include "loader/order/order_mixing.h"

#define PLACES 4096u

static uint64_t record_at(struct order *order, uint64_t position)
{
    if (!order_holds(order, position))
        order_enter(order, position);
    return order_record(order, position);
}

static double distance_at(struct order *order, uint64_t position)
{
    const uint64_t a = record_at(order, position), b = record_at(order, position + 1);
    return a > b ? (double)(a - b) : (double)(b - a);
}

double order_mixing(const struct order_shape *shape, uint64_t seed)
{
    if (shape->count < 2)
        return 1;
    struct order order;
    order_init(&order, shape, seed, 0);
    const uint64_t pairs = shape->count - 1, places = pairs < PLACES ? pairs : PLACES;
    double sum = 0;
    for (uint64_t i = 0; i < places; i++)
        sum += distance_at(&order, (uint64_t)((double)i * ((double)pairs / (double)places)));
    return sum / (double)places / (((double)shape->count + 1) / 3);
}
