/* Checks how much memory the resource limits still allow. */
#ifndef PIPETRAIN_ADDRESS_SPACE_H
#define PIPETRAIN_ADDRESS_SPACE_H

#include <stddef.h>

/* Can `bytes` more of private memory be mapped now? The function maps and unmaps them, so that all limits are checked
 * (address space, data segment, overcommit). To be called before libraries that abort the process when an allocation
 * fails. Two system calls; any thread. 0 or -ENOMEM. */
int check_address_space(size_t bytes);

#endif
