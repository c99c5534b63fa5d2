/* A mean over towers is a sum of what every tower has multiplied by its share. Called through a
 * backend's scale from the towers' threads; runs at the speed of the memory. */
#include "compute/scale.h"

#include "compute/vector.h"

VECTOR_LOOPS
void scale_floats(float *floats, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        floats[i] *= factor;
}
