/* What other converters need to know of WebDataset: archives of samples, each of which is a few neighbouring files
 * with one key, the path up to the first dot of the file's name: a/0001.jpg, a/0001.cls. */
#ifndef PIPETRAIN_WEBDATASET_H
#define PIPETRAIN_WEBDATASET_H

#include <stdatomic.h>
#include <stdbool.h>

/* Do the first members of an archive look like samples of WebDataset: an image, and beside it a file with the same key
 * that may hold a label? False also for what cannot be read. */
bool webdataset_begins(const char *path, const atomic_bool *interrupted);

#endif
