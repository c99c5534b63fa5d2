/* A port of this machine where the latest text of metrics is read over HTTP: one thread, one client at a time, each for
 * a second at most. It sees nothing of the run but the texts it is given. */
#ifndef PIPETRAIN_SCRAPE_SERVER_H
#define PIPETRAIN_SCRAPE_SERVER_H

#include <stddef.h>

#include "tools/config/observe/scrape_target.h"

struct scrape_server;

/* Listen at the address, a SCRAPE_PORT, and start the thread; texts will have at most `text_max` bytes. 0 or a negative
 * errno: -EADDRINUSE where somebody else listens there. */
int scrape_server_start(struct scrape_server **server_out, const struct scrape_target *target, size_t text_max);
/* Whoever asks from here on gets this text; copied. Blocks no longer than the thread needs to copy one. Main only. */
void scrape_server_put(struct scrape_server *server, const char *text, size_t bytes);
/* End the thread, whatever its client does, and close the port. Main only. Accepts NULL. */
void scrape_server_close(struct scrape_server *server);

#endif
