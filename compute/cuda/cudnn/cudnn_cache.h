/* Plans kept on disk: one file per plan, named after the text of all that it depends on.
 * What is damaged or missing is planned again, so nothing here is an error. */
#ifndef PIPETRAIN_CUDNN_CACHE_H
#define PIPETRAIN_CUDNN_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* What was stored in `folder` for `key` (one line), to be freed by the caller. False when
 * there is nothing whole. */
bool plan_cache_load(const char *folder, const char *key, char **plan_out, size_t *bytes_out);
/* Keep it for later runs; other towers and programs may be doing the same. Says so once per
 * call when it cannot be written. */
void plan_cache_store(const char *folder, const char *key, const char *plan, size_t bytes);
/* Later runs are not to find it. */
void plan_cache_drop(const char *folder, const char *key);

#endif
