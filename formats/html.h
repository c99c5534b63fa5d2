/* Web pages in place of files: a download is one if the site requires a login, a quota is exceeded or the address is
 * wrong. */
#ifndef PIPETRAIN_HTML_H
#define PIPETRAIN_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is a file that begins with these bytes HTML? */
bool html_begins(const void *head, size_t bytes);

#endif
