/* Web pages in the place of files: what a download gives where a site wants a login, a quota is exceeded or an address
 * is wrong. */
#ifndef PIPETRAIN_HTML_H
#define PIPETRAIN_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a file that begins with these bytes is HTML. */
bool html_begins(const void *head, size_t bytes);

#endif
