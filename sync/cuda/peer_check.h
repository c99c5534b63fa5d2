/* Do devices really read and write each other's memory? Drivers say so, and on some machines (PCIe's access control,
 * an IOMMU, a faulty bridge) other numbers arrive, or none. */
#ifndef PIPETRAIN_PEER_CHECK_H
#define PIPETRAIN_PEER_CHECK_H

#include "sync/reduce.h"

/* Between every two devices of the members, in both directions: one reads known numbers of the other's, adds its own
 * and writes the sums to both. In the members' zeros, which are zeros again. Access is enabled; nothing is queued on
 * the communication streams. Blocks. 0, -EIO when other numbers were found, or another negative errno; both logged. */
int peer_check(const struct reduce_member *members, uint32_t count);

#endif
