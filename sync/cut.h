/* What of a tower meets other towers. */
#ifndef PIPETRAIN_CUT_H
#define PIPETRAIN_CUT_H

#include "sync/server/server.h"
#include "sync/sync.h"

/* The region's arena in the tower; count 0 where it has none. */
struct reduce_region cut_region(struct tower *tower, enum region region);
/* Do the towers sum the region, or send it to each other or a server? */
bool cut_meets(const struct sync_spec *spec, enum region region);
/* What updates of a server are made of. */
struct server_rules cut_rules(const struct sync_spec *spec);

#endif
