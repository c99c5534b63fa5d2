/* Room in the address space of the process, asked of the kernel. */
#ifndef PIPETRAIN_ROOM_H
#define PIPETRAIN_ROOM_H

#include <stddef.h>

/* 0 when `bytes` more of private memory could be mapped now, else -ENOMEM: they are mapped and let go again, so
 * that all that limits a process counts (address space, data, what the system lends out). Costs two calls of the
 * system. For what comes before calls of libraries that end the process where they get no memory. Any thread. */
int room_prove(size_t bytes);

#endif
