/* Halving between the least and the most there can be. */
#include "tools/tune/crowding.h"

#include <math.h>

#define LEAST 0.0
#define MOST 12.0
#define TOLD 1.0                /* the most has to delay a step by so many times what it takes, or it is not told */
#define STEPS 300u              /* that a prediction is made of */
#define HALVINGS 14

/* Of a step, without what is waited. */
static int predict(struct feed_model *model, const struct feed_setting *setting, double crowding, double *seconds_out)
{
    struct feed_prediction prediction;
    model->crowding = crowding;
    const int rc = feed_predict(model, setting, STEPS, &prediction);
    if (rc == 0)
        *seconds_out = (1 - prediction.input_wait) * model->batch / prediction.images_per_second;
    return rc;
}

int crowding_fit(struct feed_model *model, const struct feed_setting *setting, double seconds)
{
    double least = LEAST, most = MOST, shortest, longest;
    int rc = predict(model, setting, least, &shortest);
    if (rc == 0)
        rc = predict(model, setting, most, &longest);
    const bool is_told = rc == 0 && longest > shortest * (1 + TOLD) && isfinite(seconds);
    for (int i = 0; i < HALVINGS && rc == 0 && is_told; i++) {
        const double middle = (least + most) / 2;
        double tried;
        rc = predict(model, setting, middle, &tried);
        if (rc == 0)
            *(tried > seconds ? &most : &least) = middle;
    }
    model->crowding = is_told ? least : 1;
    return rc;
}
