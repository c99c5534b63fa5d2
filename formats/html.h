/* Web pages instead of files: what a download contains if a site wants a login, a quota is exceeded or an address is
 * wrong. */
#ifndef PIPETRAIN_HTML_H
#define PIPETRAIN_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a file that begins with these bytes is HTML. */
bool html_begins(const void *head, size_t bytes);

#endif
