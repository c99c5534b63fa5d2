/* How much memory the limits of the process leave. */
#ifndef PIPETRAIN_ADDRESS_SPACE_H
#define PIPETRAIN_ADDRESS_SPACE_H

#include <stddef.h>

/* 0 when `bytes` more of private memory can be mapped now, else -ENOMEM: maps and unmaps them, so every limit counts
 * (address space, data, overcommit). Two system calls. Called before libraries that abort the process when they get
 * no memory. Any thread. */
int check_address_space(size_t bytes);

#endif
