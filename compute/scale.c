/* A mean over towers is a sum of what every tower has multiplied by its share. Called through a
 * backend's scale from the towers' threads; runs at the speed of the memory. */
#include "compute/scale.h"

#include "compute/vector.h"

VECTOR_LOOPS
void floats_scale(float *floats, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        floats[i] *= factor;
}

VECTOR_LOOPS
void floats_axpby(float *restrict floats, const float *restrict more, size_t count, float share, float keep)
{
    for (size_t i = 0; i < count; i++)
        floats[i] += share * (more[i] - keep * floats[i]);
}

VECTOR_LOOPS
void floats_clip(float *floats, size_t count, float limit)
{
    for (size_t i = 0; i < count; i++) {
        const float least = floats[i] < -limit ? -limit : floats[i];
        floats[i] = least > limit ? limit : least;
    }
}
