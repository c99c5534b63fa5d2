/* A file of events that grows by whole records, in the folder of what TensorBoard calls a run. Every process begins a
 * file of its own, whose name sorts behind those that are there. Used by main only. */
#ifndef PIPETRAIN_EVENT_FILE_H
#define PIPETRAIN_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/events/tfevent.h"

/* Begin a file in `folder`, which is made with those above it; `now` in seconds since 1970. Its descriptor, or a
 * negative errno, -ENOTDIR also where `folder` is a link and may not be one: other people's files are behind it. */
int event_file_make(const char *folder, bool may_be_link, uint64_t now);
/* Append what was put into the event, with one write. 0 or a negative errno. */
int event_file_put(int fd, struct tfevent *event);
/* Remove the files of earlier runs of this program from the folder, as far as that goes. It may not be a link. */
void event_file_clear(const char *folder);

#endif
