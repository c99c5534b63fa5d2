/* Folds batch normalisation into the layer before it. Called by the writer of ONNX. */
#include "tools/export/folded_norm.h"

#include <math.h>

void folded_norm_factors(const struct norm_numbers *norm, double *factors_out)
{
    for (uint32_t c = 0; c < norm->channels; c++)
        factors_out[c] =
            (norm->gamma != NULL ? (double)norm->gamma[c] : 1) / sqrt((double)norm->variance[c] + norm->epsilon);
}

bool folded_norm_bias(const struct norm_numbers *norm, const double *factors, const float *bias, float *bias_out)
{
    bool all_finite = true;
    for (uint32_t c = 0; c < norm->channels; c++) {
        const double centred = (bias != NULL ? (double)bias[c] : 0) - norm->mean[c];
        bias_out[c] = (float)(norm->beta[c] + centred * factors[c]);
        all_finite = all_finite && isfinite(bias_out[c]) && isfinite((float)factors[c]);
    }
    return all_finite;
}

bool folded_norm_scale(float *weights, const double *factors, size_t outputs, size_t count)
{
    bool all_finite = true;
    for (size_t o = 0; o < outputs; o++)
        for (size_t i = o * count; i < (o + 1) * count; i++) {
            weights[i] = (float)(weights[i] * factors[o]);
            all_finite = all_finite && isfinite(weights[i]);
        }
    return all_finite;
}
