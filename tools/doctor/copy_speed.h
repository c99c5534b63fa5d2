/* How fast memory is copied to a device and between devices, measured through the table of their kind. Main only. */
#ifndef PIPETRAIN_COPY_SPEED_H
#define PIPETRAIN_COPY_SPEED_H

#include "stage/device.h"

#define COPY_SPEED_DEVICES_MAX 16u      /* that are measured with each other: beyond, pairs are too many */

struct copy_speeds {
    uint32_t count;
    double to[COPY_SPEED_DEVICES_MAX];  /* bytes per second from pinned memory; 0: could not be measured */
    double between[COPY_SPEED_DEVICES_MAX][COPY_SPEED_DEVICES_MAX];     /* [from][to]; 0 on the diagonal, too */
    bool reaches[COPY_SPEED_DEVICES_MAX][COPY_SPEED_DEVICES_MAX];       /* [to][from]: without a way by the host */
};

/* Measure devices 0 to count - 1, at most as many as there is room for. What fails is told on stderr and stays 0. */
void copy_speeds_measure(const struct device_ops *ops, uint32_t count, struct copy_speeds *speeds_out);

#endif
