/* Numbers as people read them; results by value, so that several fit into one call. */
#ifndef PIPETRAIN_NUMBER_H
#define PIPETRAIN_NUMBER_H

#include <stdint.h>

struct number { char text[32]; };

/* 600810 -> "600,810" */
struct number number_grouped(uint64_t value);
/* 1536 -> "1.5 KiB" */
struct number number_bytes(uint64_t bytes);

#endif
