/* Halving between none and the most there can be. */
#include "tools/tune/crowding.h"

#define MOST 6.0
#define STEPS 300u              /* that a prediction is made of */
#define HALVINGS 12

static int predict(struct feed_model *model, const struct feed_setting *setting, double crowding, double *speed_out)
{
    struct feed_prediction prediction;
    model->crowding = crowding;
    const int rc = feed_predict(model, setting, STEPS, &prediction);
    if (rc == 0)
        *speed_out = prediction.images_per_second;
    return rc;
}

int crowding_fit(struct feed_model *model, const struct feed_setting *setting, double images_per_second)
{
    double least = 1, most = MOST, speed;
    model->crowding = 1;
    if (!model->steps_on_cores)
        return 0;
    int rc = predict(model, setting, most, &speed);
    const bool is_told = rc == 0 && speed < images_per_second;
    for (int i = 0; i < HALVINGS && rc == 0 && is_told; i++) {
        const double middle = (least + most) / 2;
        rc = predict(model, setting, middle, &speed);
        *(speed < images_per_second ? &most : &least) = middle;
    }
    model->crowding = is_told ? least : 1;
    return rc;
}
