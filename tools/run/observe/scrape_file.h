/* A file of metrics, as node_exporter's textfile collector reads it: replaced as a whole, never seen half written.
 * Used by main only. */
#ifndef PIPETRAIN_SCRAPE_FILE_H
#define PIPETRAIN_SCRAPE_FILE_H

#include <stddef.h>

/* Put a text in the place of the file at `path`; readers see this one or the one before. Not synced: it is made again
 * soon. Allocates nothing. 0 or a negative errno: then what was there stays. */
int scrape_file_write(const char *path, const char *text, size_t bytes);

#endif
