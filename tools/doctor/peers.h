/* Findings of copies between GPUs. Main only. */
#ifndef PIPETRAIN_PEERS_H
#define PIPETRAIN_PEERS_H

#include "tools/doctor/copy_speed.h"
#include "tools/doctor/finding.h"

/* One for each GPU: how fast every other one reads from it. Nothing where there is only one. */
void peers_add(struct findings *findings, const struct copy_speeds *speeds);

#endif
