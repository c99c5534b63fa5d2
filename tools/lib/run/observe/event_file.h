/* An event file, to which complete records are appended. Every process creates its own file, whose name sorts after all
 * others in the folder. Used by main only. */
#ifndef PIPETRAIN_EVENT_FILE_H
#define PIPETRAIN_EVENT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/tfevent.h"

/* Create a file in `folder`; the folder and its parents are created if needed. `now`: in seconds since 1970. Returns
 * its descriptor or a negative errno; -ENOTDIR also if `folder` is a symbolic link and may_be_link is false. */
int event_file_make(const char *folder, bool may_be_link, uint64_t now);
/* Does the folder have event files, of any program? */
bool event_file_exists(const char *folder);
/* Append the event with one write. 0 or a negative errno. */
int event_file_put(int fd, struct tfevent *event);
/* Remove the event files of earlier runs of this program from the folder, which may not be a symbolic link. Errors are
 * ignored. */
void event_file_clear(const char *folder);

#endif
